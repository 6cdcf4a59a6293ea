"""Reason of limits: an execution waits because a limit of its endpoint or key is reached."""

from collections.abc import Iterator
from typing import Any

from app.features.limits.limiter_readings import LimiterReading, rate_in_words, read_limiter
from app.features.limits.store import limiters_of
from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.claiming.arms import CLAIMABLE
from app.queue.claiming.endpoint_rules import readable_limits
from app.queue.reading.explanation_facts import Explanation, Facts, at
from app.queue.reading.waiting_reasons import MAX_AHEAD, Line, WaitingReason

_BESIDE = ", while further executions take turns with it"


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
    f"""
    SELECT EXISTS ({_of_others("QUEUED", _OF_ENDPOINT)}) OR EXISTS ({_of_others("RETRYING", _OF_ENDPOINT)})
        OR EXISTS ({_of_keys("<")}) OR EXISTS ({_of_keys(">")}) AS is_shared
    """,
)
SHARED_BY_KEY = statement(
    "executions.explain_shared_by_key",
    f"""
    SELECT EXISTS ({_of_others("QUEUED", _OF_KEY)}) OR EXISTS ({_of_others("RETRYING", _OF_KEY)}) AS is_shared
    """,
)


class LimitReason(WaitingReason):
    """The limiter of the endpoint or key has no capacity or no tokens left."""

    def explain(self, database: Database, facts: Facts, line: Line, details: dict[str, Any]) -> Explanation | None:
        """Explain by the first limit that is reached; the limit of the key comes before the limit of the endpoint."""
        for gate in _gates(database, facts):
            found = _full(database, facts, line, gate, details) or _spent(database, facts, line, gate, details)
            if found is not None:
                return found
        return None


def _full(
    database: Database, facts: Facts, line: Line, gate: LimiterReading, details: dict[str, Any]
) -> Explanation | None:
    if not gate.is_full:
        return None
    most = gate.gate.max_in_flight
    details |= {"max_in_flight": most, "in_flight": gate.state.in_flight}
    text = f"It is due, but {_owner(facts, gate)} has reached max_in_flight ({most}), and {line.before} go before it"
    text += f"{_BESIDE}." if _is_shared(database, facts, gate) else "."
    return Explanation(facts.status, "CONCURRENCY_LIMITED", text, facts.run_at, None, details)


def _spent(
    database: Database, facts: Facts, line: Line, gate: LimiterReading, details: dict[str, Any]
) -> Explanation | None:
    rate, until = gate.gate.rate, gate.next_at(line.counted + 1)
    if rate is None or until is None:
        return None
    details |= {"rate": rate.as_json(), "tokens": gate.tokens}
    next_at = gate.next_at() or gate.now
    text = f"It is due, but {_owner(facts, gate)} may start {rate_in_words(rate)}: the next at {at(next_at)}, "
    text += f"and {line.before} go before it"
    is_shared = _is_shared(database, facts, gate)
    text += f"{_BESIDE}." if is_shared else "."
    # In a sliding window, later starts depend on the instants of earlier starts.
    known = until if not is_shared and (not rate.is_sliding or not line.ahead) else None
    return Explanation(facts.status, "RATE_LIMITED", text, facts.run_at, known, details)


def _owner(facts: Facts, gate: LimiterReading) -> str:
    return f"its key {facts.limit_key[1:]!r}" if gate.gate.limit_key else "its endpoint"


def _is_shared(database: Database, facts: Facts, gate: LimiterReading) -> bool:
    """Return whether further executions take turns with this execution at a limiter, in no fixed order."""
    partition = {"shard": facts.shard, "endpoint": facts.endpoint, "limit_key": facts.limit_key, "most": MAX_AHEAD}
    if gate.gate.limit_key:
        (found,) = database.fetch(SHARED_BY_KEY, partition)
    else:
        (found,) = database.fetch(SHARED, partition | {"queue": facts.queue})
    is_shared: bool = found.is_shared
    return is_shared


def _gates(database: Database, facts: Facts) -> Iterator[LimiterReading]:
    """Read the limiters of an execution, the limiter of its key first."""
    limits = readable_limits(facts.limits, facts.endpoint)
    if limits is None:
        return
    for gate in reversed(limiters_of(limits, facts.endpoint, facts.limit_key, most_ahead=1)):
        yield read_limiter(database, gate)
