"""A job with many open executions, and the counts of executions by status."""

import os

from sqlalchemy import text

from app.kernel.db import Database

OPEN = int(os.environ.get("TE_TEST_OPEN_EXECUTIONS", "5000"))
BY_STATUS = text("SELECT status, on_hold, count(*) AS number FROM executions GROUP BY status, on_hold ORDER BY status")
ADD = text(
    """
    INSERT INTO executions (execution_id, job_id, endpoint, endpoint_version, endpoint_type, queue, shard,
                            idempotency_key, status, on_hold, max_attempts)
    SELECT 'exec_' || md5(CAST(n AS TEXT)), :job, 'target', 1, 'HTTP', 'http', 0, :job || '_' || CAST(n AS TEXT),
           CASE WHEN :held THEN 'PENDING' ELSE 'QUEUED' END, :held, 3
      FROM generate_series(1, CAST(:count AS BIGINT)) AS n
    """
)


def put(database: Database, job_id: str, *, held: bool, count: int = OPEN) -> None:
    database.fetch(ADD, {"job": job_id, "held": held, "count": count})
    database.fetch(text("ANALYZE executions"))
    if held:
        paused = "UPDATE jobs SET status = 'PAUSED', paused_at = now(), cron_next_run_at = NULL WHERE job_id = :job"
        database.fetch(text(paused), {"job": job_id})


def counts(database: Database) -> list[tuple[str, bool, int]]:
    return [(row.status, row.on_hold, row.number) for row in database.fetch(BY_STATUS)]
