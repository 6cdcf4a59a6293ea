"""Reclaim: end attempts of RUNNING executions that their workers will not complete.

`reclaim_candidates` reads candidates and decides the next state of each. One statement then repeats the whole condition
in its UPDATE: if two schedulers and a late completion compete, the first wins and the rest change nothing.
"""

import json
from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.ending.outbox_rows import put_ends_of
from app.queue.executions.reclaim_candidates import IS_LOST, IS_STUCK, Candidate, reason_of
from app.queue.executions.settlement import settlement_of
from schema.states import ExecutionStatus, LogLevel

# RECLAIM skips locked executions, and executions whose end would settle a locked job, and returns the names of the
# locked rows. Waiting for one row would leave all other executions with their dead workers.
#
# = ANY is implied by the join; it keeps the plan to the primary key while the table's statistics are old. A request to
# cancel turns a retry into CANCELLED, and a request to abort any state. A retry without an attempt left (see
# Tried.most_attempts) raises max_attempts, since no claim takes it otherwise.
RECLAIM = statement(
    "executions.reclaim",
    """
    WITH lost AS (
      SELECT * FROM unnest(
        CAST(:ids AS TEXT[]), CAST(:attempts AS BIGINT[]), CAST(:max_attempts AS BIGINT[]), CAST(:statuses AS TEXT[]),
        CAST(:outputs AS TEXT[]), CAST(:errors AS TEXT[]), CAST(:levels AS TEXT[]), CAST(:messages AS TEXT[]),
        CAST(:attempt_ids AS TEXT[]), CAST(:log_ids AS TEXT[]), CAST(:jobs AS TEXT[]), CAST(:max_ages AS BIGINT[]))
      AS u (execution_id, attempt, max_attempts, status, output, error, level, message, attempt_id, log_id, job_id,
            max_age_ms)),
    free AS MATERIALIZED (
      SELECT execution_id, run_at FROM executions WHERE execution_id = ANY (CAST(:ids AS TEXT[]))
       ORDER BY execution_id LIMIT :count FOR NO KEY UPDATE SKIP LOCKED),
    free_jobs AS MATERIALIZED (
      SELECT job_id FROM jobs WHERE job_id = ANY (CAST(:jobs AS TEXT[]))
       ORDER BY job_id LIMIT :count FOR NO KEY UPDATE SKIP LOCKED),
    taken AS (
      UPDATE executions AS e
         SET status = CASE WHEN e.abort_requested_at IS NOT NULL
                             OR lost.status = 'RETRYING' AND e.cancel_requested_at IS NOT NULL
                           THEN 'CANCELLED' ELSE lost.status END,
             output = CASE WHEN e.abort_requested_at IS NULL THEN CAST(lost.output AS JSONB) END,
             run_at = CASE WHEN lost.status = 'RETRYING' AND e.cancel_requested_at IS NULL
                           THEN now() ELSE e.run_at END,
             expires_at = CASE WHEN lost.status = 'RETRYING'
                               THEN e.scheduled_at + lost.max_age_ms * INTERVAL '1 millisecond' ELSE e.expires_at END,
             completed_at = CASE WHEN lost.status = 'RETRYING' AND e.cancel_requested_at IS NULL
                                 THEN NULL ELSE now() END,
             max_attempts = CASE WHEN lost.status = 'RETRYING' AND e.cancel_requested_at IS NULL
                                 THEN GREATEST(e.max_attempts, e.attempt_count + 1) ELSE e.max_attempts END,
             duration_ms = CAST(EXTRACT(EPOCH FROM (now() - e.started_at)) * 1000 AS BIGINT)
        FROM lost
        JOIN free ON free.execution_id = lost.execution_id
        LEFT JOIN free_jobs ON free_jobs.job_id = lost.job_id
       WHERE e.execution_id = ANY (CAST(:ids AS TEXT[]))
         AND e.execution_id = lost.execution_id AND e.attempt_count = lost.attempt AND e.status = 'RUNNING'
         AND e.max_attempts = lost.max_attempts
         AND (lost.job_id IS NULL OR free_jobs.job_id IS NOT NULL
              OR lost.status = 'RETRYING' AND e.cancel_requested_at IS NULL)
         AND CASE WHEN CAST(:stuck_ms AS BIGINT) IS NULL THEN {is_lost} ELSE {is_stuck} END
      RETURNING e.execution_id, e.job_id, e.queue, e.worker_id, e.attempt_count, e.status, e.scheduled_at,
                e.shard, e.endpoint, e.followed, e.started_at, e.duration_ms, e.output, lost.error, lost.level,
                lost.message, lost.attempt_id, lost.log_id, free.run_at AS due_at),
    tried AS (
      INSERT INTO attempts (attempt_id, execution_id, attempt_number, status, worker_id, started_at, completed_at,
                            duration_ms, output, error, led_to, due_at)
      SELECT taken.attempt_id, taken.execution_id, taken.attempt_count,
             CASE WHEN taken.status = 'SUCCESS' THEN 'SUCCESS' ELSE 'FAILED' END, taken.worker_id, taken.started_at,
             now(), taken.duration_ms, taken.output, CAST(taken.error AS JSONB), NULLIF(taken.status, 'SUCCESS'),
             taken.due_at
        FROM taken
      ON CONFLICT (execution_id, attempt_number) DO NOTHING
      RETURNING attempt_id),
    logged AS (
      INSERT INTO execution_logs (log_id, execution_id, attempt_number, level, message)
      SELECT taken.log_id, taken.execution_id, taken.attempt_count, taken.level,
             CASE WHEN taken.status = 'CANCELLED' THEN CAST(:cancelled AS TEXT) ELSE taken.message END
        FROM taken
      RETURNING log_id),
    settled AS ({settlement}),
    put AS ({put_ends})
    SELECT queue, status, count(*) AS executions, CAST(NULL AS TEXT) AS locked
      FROM taken GROUP BY queue, status
    UNION ALL
    SELECT CAST(NULL AS TEXT), CAST(NULL AS TEXT), 0,
           CASE WHEN free.execution_id IS NULL THEN 'execution ' || lost.execution_id ELSE 'job ' || lost.job_id END
      FROM lost
      LEFT JOIN free ON free.execution_id = lost.execution_id
      LEFT JOIN free_jobs ON free_jobs.job_id = lost.job_id
      LEFT JOIN taken ON taken.execution_id = lost.execution_id
     WHERE taken.execution_id IS NULL
       AND (free.execution_id IS NULL OR lost.job_id IS NOT NULL AND free_jobs.job_id IS NULL)
    """,
    is_lost=IS_LOST,
    is_stuck=IS_STUCK,
    settlement=settlement_of("taken", at="now()", when="taken.status <> 'RETRYING'"),
    put_ends=put_ends_of(
        "taken",
        end_id="taken.attempt_id",
        attempt="taken.attempt_count",
        at="now()",
        rejected="COALESCE(CAST(taken.error AS JSONB)->>'rejected' = 'true', false)",
    ),
)


class ReclaimCounts(NamedTuple):
    """Counts of reclaimed executions by next state; `queues` are the queues of retries.

    `ignored` counts errors that the retry policy turns into a success. `ends` are the ids of the attempts of all
    candidates, and of their completion events in the outbox. `locked` names the executions and jobs that were skipped
    because another transaction has locked their rows.
    """

    queues: frozenset[str]
    retrying: int
    failed: int
    cancelled: int
    ignored: int
    ends: list[str]
    locked: frozenset[str]


def reclaim(database: Database, found: Sequence[Candidate], *, stuck_ms: int | None = None) -> ReclaimCounts:
    """End the attempts of candidates that still meet the condition of `candidates`."""
    params = _params(found, stuck_ms)
    rows = database.fetch(RECLAIM, params) if found else ()
    counts = Counter[str]()
    for row in rows:
        counts[row.status] += row.executions
    return ReclaimCounts(
        queues=frozenset(row.queue for row in rows if row.status == "RETRYING"),
        retrying=counts["RETRYING"],
        failed=counts["FAILED"],
        cancelled=counts["CANCELLED"],
        ignored=counts["SUCCESS"],
        ends=params["attempt_ids"],
        locked=frozenset(row.locked for row in rows if row.locked),
    )


def _params(found: Sequence[Candidate], stuck_ms: int | None) -> dict[str, Any]:
    # In key order, like completions, so that the two do not deadlock.
    ordered, reason = sorted(found, key=attrgetter("tried.execution_id")), reason_of(stuck_ms)
    fails = [c.verdict.status is ExecutionStatus.FAILED for c in ordered]
    return {
        "ids": [c.tried.execution_id for c in ordered],
        "jobs": [c.job_to_settle for c in ordered],
        "count": len(ordered),
        "attempts": [c.tried.attempt for c in ordered],
        "max_attempts": [c.tried.max_attempts for c in ordered],
        "statuses": [c.verdict.status.value for c in ordered],
        "outputs": [None if c.verdict.output is None else json.dumps(c.verdict.output) for c in ordered],
        "errors": [json.dumps(c.verdict.error) for c in ordered],
        "levels": [(LogLevel.ERROR if failed else LogLevel.WARN).value for failed in fails],
        "messages": [f"{reason.value}; {_consequence(c)}" for c in ordered],
        "attempt_ids": [ids.attempt_id() for _ in ordered],
        "log_ids": [ids.log_id() for _ in ordered],
        "max_ages": [c.verdict.max_age_ms for c in ordered],
        "stuck_ms": stuck_ms,
        "cancelled": f"{reason.value}; it was asked to be cancelled, so it is not tried again",
    }


def _consequence(candidate: Candidate) -> str:
    if candidate.verdict.status is ExecutionStatus.SUCCESS:
        return "the retry policy ignores it"
    if candidate.verdict.status is ExecutionStatus.RETRYING:
        is_extra = candidate.tried.attempt >= candidate.tried.max_attempts
        return "trying once more, since it may never have been sent" if is_extra else "trying again"
    if candidate.tried.attempt >= candidate.tried.max_attempts and (candidate.verdict.error or {})["retryable"]:
        return "no attempts are left"
    return "the retry policy allows no other attempt"
