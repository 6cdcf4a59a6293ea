"""Reason of limits: an execution waits because a limit of its endpoint or key is reached."""

from typing import Any

from app.features.limits.rules import limiters_of
from app.features.limits.store import READING, LimiterReading, read_limiter
from app.kernel.db.reads import Reads
from app.kernel.sql import read_together, statement
from app.queue.claiming.arms import CLAIMABLE
from app.queue.claiming.endpoint_rules import readable_limits
from app.queue.reading.waiting_reasons import MAX_AHEAD, Explanation, Facts, QueuePosition, WaitingReason, at


# Keys take turns at the limiter of their endpoint, and shards at the limiter of a key. Reading a part of the waiting
# executions is enough to find other shards.
def _of_others(status: str, are_others: str) -> str:
    return f"""
      SELECT 1 FROM (
        SELECT x.shard, x.limit_key FROM executions AS x
         WHERE x.endpoint = :endpoint AND x.status = '{status}' AND x.completed_at IS NULL
           AND x.status IN ('PENDING', 'QUEUED', 'RETRYING')
         ORDER BY x.created_at, x.execution_id LIMIT :most) AS found
       WHERE {are_others}"""  # noqa: S608 - constants of this module


def _of_keys(comparison: str) -> str:
    return f"""
      SELECT 1 FROM executions AS o
       WHERE o.queue = :queue AND o.shard = :shard AND o.endpoint = :endpoint AND o.limit_key {comparison} :limit_key
         AND {CLAIMABLE}"""  # noqa: S608 - constants of this package


_OF_ENDPOINT = "found.shard <> :shard OR found.limit_key <> :limit_key"
_OF_KEY = "found.shard <> :shard AND found.limit_key = :limit_key"
SHARED = statement(
    "executions.explain_shared",
    """
    SELECT EXISTS ({queued}) OR EXISTS ({retrying}) OR EXISTS ({lower_keys}) OR EXISTS ({higher_keys}) AS is_shared
    """,
    queued=_of_others("QUEUED", _OF_ENDPOINT),
    retrying=_of_others("RETRYING", _OF_ENDPOINT),
    lower_keys=_of_keys("<"),
    higher_keys=_of_keys(">"),
)
SHARED_BY_KEY = statement(
    "executions.explain_shared_by_key",
    "SELECT EXISTS ({queued}) OR EXISTS ({retrying}) AS is_shared",
    queued=_of_others("QUEUED", _OF_KEY),
    retrying=_of_others("RETRYING", _OF_KEY),
)
_TYPES = {"shard": "BIGINT", "endpoint": "TEXT", "limit_key": "TEXT"}
read_together(SHARED, queue="TEXT", **_TYPES)
read_together(SHARED_BY_KEY, **_TYPES)


class LimitReason(WaitingReason):
    """The limiter of the endpoint or key has no capacity or no tokens left."""

    statements = (READING, SHARED_BY_KEY, SHARED)

    def explain(self, reads: Reads, facts: Facts, line: QueuePosition, details: dict[str, Any]) -> Explanation | None:
        """Explain by the first limit that is reached; the limit of the key comes before the limit of the endpoint."""
        limits = readable_limits(facts.limits, facts.endpoint)
        limiters = [] if limits is None else limiters_of(limits, facts.endpoint, facts.limit_key, most_ahead=1)
        readings = (read_limiter(reads, limiter) for limiter in reversed(limiters))
        explained = (_explained(reads, facts, line, reading, details) for reading in readings)
        return next((found for found in explained if found is not None), None)


def _explained(
    reads: Reads, facts: Facts, line: QueuePosition, reading: LimiterReading, details: dict[str, Any]
) -> Explanation | None:
    limiter, rate, until = reading.limiter, reading.limiter.rate, reading.next_at(line.counted + 1)
    if not reading.is_full and until is None:
        return None
    owner = f"its key {limiter.limit_key[1:]!r}" if limiter.limit_key else "its endpoint"
    is_shared = _is_shared(reads, facts, reading)
    before = f"and {line.before} go before it{', while further executions take turns with it' if is_shared else ''}."
    if reading.is_full or rate is None:
        details |= {"max_in_flight": limiter.max_in_flight, "in_flight": reading.state.in_flight}
        text = f"It is due, but {owner} has reached max_in_flight ({limiter.max_in_flight}), {before}"
        return Explanation(facts.status, "CONCURRENCY_LIMITED", text, facts.run_at, None, details)
    shown = rate.as_json()
    details |= {"rate": shown, "tokens": reading.tokens}
    next_at = at(reading.next_at() or reading.now)
    text = f"It is due, but {owner} may start {shown['count']} per {shown['per']}: the next at {next_at}, {before}"
    # In a sliding window, later starts depend on the instants of earlier starts.
    is_known = line.is_exact and not is_shared and (not rate.is_sliding or not line.ahead)
    return Explanation(facts.status, "RATE_LIMITED", text, facts.run_at, until if is_known else None, details)


def _is_shared(reads: Reads, facts: Facts, reading: LimiterReading) -> bool:
    """Return whether further executions take turns with this execution at a limiter, in no fixed order."""
    partition = {"shard": facts.shard, "endpoint": facts.endpoint, "limit_key": facts.limit_key, "queue": facts.queue}
    query = SHARED_BY_KEY if reading.limiter.limit_key else SHARED
    is_shared: bool = reads.fetch(query, partition | {"most": MAX_AHEAD})[0].is_shared
    return is_shared
