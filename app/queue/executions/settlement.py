"""Settlement of a job after the end of its execution: a one-shot job retires, a fixed delay starts.

The statement that ends an execution also settles its job; `app.queue.executions.repairs` finds jobs that were missed.
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from app.kernel.sql import statement

ONE_SHOT = "j.trigger_type IN ('IMMEDIATE', 'DELAYED')"
MAY_SETTLE = f"({ONE_SHOT} OR j.fixed_delay)"
"""Condition on constant columns of `j`: jobs that the end of an execution locks in order to settle them."""


def settlement_of(ended: str, *, at: str, when: str = "true") -> str:
    """Return the UPDATE that settles the jobs of `ended`, a CTE of executions with job_id and scheduled_at.

    A fixed delay counts from `at`, unless a later tick of the job exists. A next run in the past becomes due now,
    because the read of due ticks has passed its time (`watermark`). `when` is the condition for ended rows. The status
    of the job is read under the row lock: a job that is just being resumed still gets its next run here.
    """
    return f"""
      UPDATE jobs AS j
         SET status = CASE WHEN j.fixed_delay THEN j.status ELSE 'RETIRED' END,
             retired_at = CASE WHEN j.fixed_delay THEN j.retired_at ELSE now() END,
             paused_at = CASE WHEN j.fixed_delay THEN j.paused_at END,
             cron_next_run_at = CASE WHEN j.fixed_delay AND j.status = 'ACTIVE'
                                     THEN GREATEST(now(), {at} + j.interval_ms * INTERVAL '1 millisecond') END
        FROM {ended}
       WHERE j.job_id = {ended}.job_id AND {when} AND j.status <> 'RETIRED'
         AND ({ONE_SHOT}
              OR j.fixed_delay AND j.cron_next_run_at IS NULL AND j.cron_last_tick_at = {ended}.scheduled_at)
      RETURNING j.job_id"""  # noqa: S608 - parts of statements, composed at import


# For rare operations that need several statements.
SETTLE = statement(
    "executions.settle_jobs",
    """
    WITH ended AS (
      SELECT job_id, scheduled_at, completed_at FROM executions
       WHERE execution_id = ANY (CAST(:ids AS TEXT[])) AND completed_at IS NOT NULL)
    {settlement}
    """,
    settlement=settlement_of("ended", at="ended.completed_at"),
)


def settle_jobs(connection: Connection, execution_ids: Sequence[str]) -> None:
    """Settle the jobs of executions that ended in this transaction, after their update: the lock order of COMPLETE."""
    if execution_ids:
        connection.execute(SETTLE, {"ids": execution_ids})
