"""Candidates of the reclaim: RUNNING executions that their workers will not complete, each with its next state."""

from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.catalog.retry_policy import RetryPolicy
from app.catalog.specs import TRANSPORTS
from app.catalog.specs.actor import OUTCOME_MS
from app.kernel.db import Database
from app.kernel.sql import hot_statement, of_regions, statement
from app.queue.executions.actor_losses import has_begun, losses
from app.queue.executions.execution_model import DeliveryError
from app.queue.executions.handover import HAS_WORKFLOW
from app.queue.executions.settlement import MAY_SETTLE
from app.queue.executions.verdict import Tried, Verdict, decide, outcome
from schema.inline_bounds import MAX_TIMEOUT_MS
from schema.states import EndpointType

_GRACE_MS = {type_: each.stuck_grace_ms for type_, each in TRANSPORTS.items() if each.stuck_grace_ms is not None}
_TIMEOUT_MS = {type_: TRANSPORTS[type_].defaults["timeout_ms"] for type_ in _GRACE_MS}
_MAX_LOST = {type_: each.defaults["max_lost"] for type_, each in TRANSPORTS.items() if "max_lost" in each.defaults}
_BOUNDED = ", ".join(f"'{type_}'" for type_ in _MAX_LOST)


def _by_type(values: Mapping[EndpointType, int]) -> str:
    """Return the SQL of the value for the endpoint type of `e`, NULL for other types."""
    cases = " ".join(f"WHEN '{type_}' THEN {value}" for type_, value in values.items())
    return f"CAST(CASE e.endpoint_type {cases} END AS NUMERIC)"


# An expired lease is never renewed, so a lost execution stays lost between the two statements.
IS_LOST = f"""(NOT EXISTS (SELECT 1 FROM workers AS w
                            WHERE w.worker_id = e.worker_id AND w.status = 'ALIVE' AND w.lease_expires_at > now())
                AND NOT {HAS_WORKFLOW})"""  # noqa: S608 - a constant of this package
# A message of Dramatiq may have a longer time limit than its actor. It is in the input if `arguments` is the whole
# input; other arguments may have any limit, so they get the longest.
_OWN_TIMEOUT_MS = f"""COALESCE((SELECT CAST(i.input->'options'->>'time_limit' AS NUMERIC) + {OUTCOME_MS} FROM jobs AS i
                                  WHERE i.job_id = e.job_id AND e.endpoint_type = '{EndpointType.ACTOR}'
                                    AND jsonb_typeof(i.input->'options'->'time_limit') = 'number'), 0)"""  # noqa: S608
# A transport with a grace has the time limit of the execution's version, which may be longer than the stuck timeout.
IS_STUCK = f"""(e.started_at <= now() - CAST(:stuck_ms AS BIGINT) * INTERVAL '1 millisecond' AND NOT {HAS_WORKFLOW}
                AND ({_by_type(_GRACE_MS)} IS NULL OR NOT EXISTS (
                       SELECT 1 FROM endpoint_versions AS x
                        WHERE x.endpoint = e.endpoint AND x.version = e.endpoint_version
                          AND e.started_at > now() - INTERVAL '1 millisecond' * CAST({_by_type(_GRACE_MS)} + LEAST(
                                {MAX_TIMEOUT_MS}, GREATEST({_OWN_TIMEOUT_MS}, CASE
                                WHEN jsonb_typeof(x.spec->'arguments') = 'object'
                                  OR split_part(x.spec->>'arguments', '.', 2) <> '' THEN {MAX_TIMEOUT_MS}
                                WHEN jsonb_typeof(x.spec->'timeout_ms') = 'number'
                                THEN CAST(x.spec->>'timeout_ms' AS NUMERIC)
                                ELSE {_by_type(_TIMEOUT_MS)} END)) AS DOUBLE PRECISION))))"""  # noqa: S608 - constants

_CANDIDATES = f"""
    SELECT e.endpoint, e.limit_key, e.worker_id, e.execution_id, e.attempt_count, e.max_attempts,
           now() - e.scheduled_at AS age, v.retry_policy,
           (SELECT count(*) FROM attempts AS a
             WHERE a.execution_id = e.execution_id
               AND a.error->>'type' IN ('WORKER_LOST', 'STUCK', 'PROCESS_LOST')) AS lost_before,
           CASE WHEN e.endpoint_type IN ({_BOUNDED}) THEN {losses("e.execution_id")} END AS losses,
           e.endpoint_type IN ({_BOUNDED}) AND {has_begun("e.execution_id", "e.attempt_count")} AS has_begun,
           e.endpoint_type, v.spec->'max_lost' AS max_lost,
           (SELECT j.job_id FROM jobs AS j WHERE j.job_id = e.job_id AND {MAY_SETTLE}) AS job_to_settle
      FROM executions AS e
      LEFT JOIN endpoint_versions AS v ON v.endpoint = e.endpoint AND v.version = e.endpoint_version
     WHERE e.status = 'RUNNING'
       AND (e.endpoint, e.limit_key, e.worker_id, e.execution_id) > (:endpoint, :limit_key, :worker_id, :execution_id)
       AND {{condition}}
     ORDER BY e.endpoint, e.limit_key, e.worker_id, e.execution_id LIMIT :limit
    """  # noqa: S608 - a constant of this package
LOST = hot_statement("executions.lost", _CANDIDATES.format(condition=IS_LOST + of_regions("e")))
STUCK = statement("executions.stuck", _CANDIDATES.format(condition=IS_STUCK + of_regions("e")))


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


class Candidate(NamedTuple):
    """An execution to reclaim, the verdict on its attempt, and the job that its end may change, if any."""

    tried: Tried
    verdict: Verdict
    place: CandidatePosition = START
    job_to_settle: str | None = None


def candidates(
    database: Database, after: CandidatePosition = START, *, stuck_ms: int | None = None, limit: int
) -> list[Candidate]:
    """Read a page of RUNNING executions that were claimed longer than `stuck_ms` ago.

    With `stuck_ms` None, read RUNNING executions of workers without a valid lease: it ran out, or the worker is DEAD
    or has no row.
    """
    params = {**after._asdict(), "stuck_ms": stuck_ms, "limit": limit}
    return [_candidate(row, reason_of(stuck_ms)) for row in database.fetch(LOST if stuck_ms is None else STUCK, params)]


def reason_of(stuck_ms: int | None) -> LossReason:
    return LossReason.WORKER_LOST if stuck_ms is None else LossReason.STUCK


def _candidate(row: Row[Any], reason: LossReason) -> Candidate:
    age_ms = row.age / timedelta(milliseconds=1)
    tried = Tried(row.execution_id, row.attempt_count, row.max_attempts, age_ms, first_loss=not row.lost_before)
    is_last = row.endpoint_type in _MAX_LOST and _is_last_loss(row, reason)
    error = DeliveryError(reason.name, reason.value, permanent=is_last, may_have_been_delivered=True)
    try:
        verdict = _verdict(error, tried, RetryPolicy.from_json(row.retry_policy))
    except Exception:  # noqa: BLE001 - a policy that was edited manually may hold values of any type
        # One unreadable policy must not stop the reclaim of other executions.
        verdict = _verdict(error, tried, RetryPolicy())
    place = CandidatePosition(row.endpoint, row.limit_key, row.worker_id, row.execution_id)
    return Candidate(tried, verdict, place, row.job_to_settle)


def _is_last_loss(row: Row[Any], reason: LossReason) -> bool:
    """Return whether a loss is the last that `max_lost` allows; see `actor_losses` for the losses that count."""
    max_lost = row.max_lost if isinstance(row.max_lost, int) else _MAX_LOST[row.endpoint_type]
    counts = reason is LossReason.STUCK or row.has_begun or max_lost == 1
    return bool(row.losses + counts >= max_lost)


def _verdict(error: DeliveryError, tried: Tried, policy: RetryPolicy) -> Verdict:
    return decide(error, outcome(error, {}, policy), tried, policy, None)
