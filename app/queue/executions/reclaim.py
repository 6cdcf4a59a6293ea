"""Reclaim: end attempts of RUNNING executions that their workers will not complete.

Candidates are read first, and the next state of each is decided. One statement then repeats the whole condition in its
UPDATE: of two schedulers and a late completion, the first wins and the rest change nothing.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.catalog.retry_policy import RetryPolicy
from app.catalog.specs.actor import DEFAULT_TIMEOUT_MS, GRACE_MS, MAX_LOST
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.sql import of_regions, statement
from app.queue.ending.outbox_rows import put_ends_of
from app.queue.executions.execution_model import DeliveryError
from app.queue.executions.handover import HAS_WORKFLOW
from app.queue.executions.settlement import MAY_SETTLE, settlement_of
from app.queue.executions.verdict import Tried, Verdict, decide, outcome
from schema.inline_bounds import MAX_TIMEOUT_MS
from schema.states import ExecutionStatus, LogLevel

# An expired lease is never renewed, so a lost execution stays lost between the two statements.
_IS_LOST = f"""(NOT EXISTS (SELECT 1 FROM workers AS w
                            WHERE w.worker_id = e.worker_id AND w.status = 'ALIVE' AND w.lease_expires_at > now())
                AND NOT {HAS_WORKFLOW})"""  # noqa: S608 - a constant of this package
# An actor has the time limit of its version, which may be longer.
_IS_STUCK = f"""(e.started_at <= now() - CAST(:stuck_ms AS BIGINT) * INTERVAL '1 millisecond' AND NOT {HAS_WORKFLOW}
                 AND (e.endpoint_type <> 'ACTOR' OR NOT EXISTS (
                        SELECT 1 FROM endpoint_versions AS x
                         WHERE x.endpoint = e.endpoint AND x.version = e.endpoint_version
                           AND e.started_at > now() - INTERVAL '1 millisecond' * CAST({GRACE_MS} + CASE
                                 WHEN jsonb_typeof(x.spec->'timeout_ms') = 'number'
                                 THEN LEAST(CAST(x.spec->>'timeout_ms' AS NUMERIC), {MAX_TIMEOUT_MS})
                                 ELSE {DEFAULT_TIMEOUT_MS} END AS DOUBLE PRECISION))))"""  # noqa: S608 - constants

_CANDIDATES = f"""
    SELECT e.endpoint, e.limit_key, e.worker_id, e.execution_id, e.attempt_count, e.max_attempts,
           now() - e.scheduled_at AS age, v.retry_policy,
           (SELECT count(*) FROM attempts AS a
             WHERE a.execution_id = e.execution_id
               AND a.error->>'type' IN ('WORKER_LOST', 'STUCK', 'PROCESS_LOST')) AS lost_before,
           e.endpoint_type = 'ACTOR' AS is_actor, v.spec->'max_lost' AS max_lost,
           (SELECT j.job_id FROM jobs AS j WHERE j.job_id = e.job_id AND {MAY_SETTLE}) AS job_to_settle
      FROM executions AS e
      LEFT JOIN endpoint_versions AS v ON v.endpoint = e.endpoint AND v.version = e.endpoint_version
     WHERE e.status = 'RUNNING'
       AND (e.endpoint, e.limit_key, e.worker_id, e.execution_id) > (:endpoint, :limit_key, :worker_id, :execution_id)
       AND {{condition}}
     ORDER BY e.endpoint, e.limit_key, e.worker_id, e.execution_id LIMIT :limit
    """  # noqa: S608 - a constant of this package
LOST = statement("executions.lost", _CANDIDATES.format(condition=_IS_LOST + of_regions("e")))
STUCK = statement("executions.stuck", _CANDIDATES.format(condition=_IS_STUCK + of_regions("e")))

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
    is_lost=_IS_LOST,
    is_stuck=_IS_STUCK,
    settlement=settlement_of("taken", at="now()", when="taken.status <> 'RETRYING'"),
    put_ends=put_ends_of(
        "taken",
        end_id="taken.attempt_id",
        attempt="taken.attempt_count",
        at="now()",
        rejected="COALESCE(CAST(taken.error AS JSONB)->>'rejected' = 'true', false)",
    ),
)


class LossReason(Enum):
    """Reason why an attempt is ended without its worker; the name is the type of the attempt's error."""

    WORKER_LOST = "the worker's lease ran out before it wrote a result"
    STUCK = "no result was written within the stuck timeout"


class CandidatePosition(NamedTuple):
    """Position of a candidate in the order of the pages."""

    endpoint: str
    limit_key: str
    worker_id: str
    execution_id: str


START = CandidatePosition("", "", "", "")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An execution to reclaim, the verdict on its attempt, and the job that its end may change, if any."""

    tried: Tried
    verdict: Verdict
    place: CandidatePosition = START
    job_to_settle: str | None = None


@dataclass(frozen=True, slots=True)
class ReclaimCounts:
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


def candidates(
    database: Database, after: CandidatePosition = START, *, stuck_ms: int | None = None, limit: int
) -> list[Candidate]:
    """Read a page of RUNNING executions that were claimed longer than `stuck_ms` ago.

    With `stuck_ms` None, read RUNNING executions whose worker has no valid lease: it ran out, or the worker is DEAD or
    has no row.
    """
    params = {**after._asdict(), "stuck_ms": stuck_ms, "limit": limit}
    return [_candidate(row, _reason(stuck_ms)) for row in database.fetch(LOST if stuck_ms is None else STUCK, params)]


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


def _reason(stuck_ms: int | None) -> LossReason:
    return LossReason.WORKER_LOST if stuck_ms is None else LossReason.STUCK


def _candidate(row: Row[Any], reason: LossReason) -> Candidate:
    age_ms = row.age / timedelta(milliseconds=1)
    tried = Tried(row.execution_id, row.attempt_count, row.max_attempts, age_ms, first_loss=not row.lost_before)
    max_lost = row.max_lost if isinstance(row.max_lost, int) else MAX_LOST
    is_last = row.is_actor and row.lost_before + 1 >= max_lost
    error = DeliveryError(reason.name, reason.value, permanent=is_last, may_have_been_delivered=True)
    try:
        verdict = _verdict(error, tried, RetryPolicy.from_json(row.retry_policy))
    except Exception:  # noqa: BLE001 - a policy that was edited manually may hold values of any type
        # One unreadable policy must not stop the reclaim of other executions.
        verdict = _verdict(error, tried, RetryPolicy())
    place = CandidatePosition(row.endpoint, row.limit_key, row.worker_id, row.execution_id)
    return Candidate(tried, verdict, place, row.job_to_settle)


def _verdict(error: DeliveryError, tried: Tried, policy: RetryPolicy) -> Verdict:
    return decide(error, outcome(error, {}, policy), tried, policy, None)


def _params(found: Sequence[Candidate], stuck_ms: int | None) -> dict[str, Any]:
    # In key order, like completions, so that the two do not deadlock.
    ordered, reason = sorted(found, key=attrgetter("tried.execution_id")), _reason(stuck_ms)
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
