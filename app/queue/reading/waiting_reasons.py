"""What an execution waits for that is due: a pause, workers, a limit, a breaker, or others before it.

All reads are bounded: what is before an execution is counted up to MOST_AHEAD, by ranges of the index of lanes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.features.breakers import store as breakers_store
from app.features.limits.reasons import GateReading, rate_in_words, read_gate
from app.features.limits.store import gates_of
from app.kernel.db import Database
from app.kernel.processes.worker_commands import IS_DRAINING
from app.kernel.sql import statement
from app.queue.claiming.arms import CLAIMABLE
from app.queue.claiming.endpoint_rules import readable_limits
from app.queue.reading.explanation_facts import Explanation, Facts, at
from schema.states import BreakerState

MOST_AHEAD = 1000
_BESIDE = ", beside others that take turns with it"
MOST_PRIORITIES = 16  # higher ones that are looked at

_LANE = "o.queue = :queue AND o.shard = :shard AND o.endpoint = :endpoint AND o.limit_key = :limit_key"
AHEAD = statement(
    "executions.explain_queue",
    f"""
    SELECT (SELECT count(*) FROM workers AS w
             WHERE w.status = 'ALIVE' AND w.lease_expires_at > now() AND NOT {IS_DRAINING}
               AND w.queues @> jsonb_build_array(CAST(:queue AS TEXT))) AS workers,
           (SELECT count(*) FROM (
              SELECT o.execution_id FROM executions AS o
               WHERE {_LANE} AND o.priority = :priority AND {CLAIMABLE}
                 AND (o.run_at, o.execution_id) < (CAST(:run_at AS TIMESTAMPTZ), CAST(:execution_id AS TEXT))
               ORDER BY o.run_at, o.execution_id LIMIT :most) AS ahead) AS ahead
    """,  # noqa: S608 - constants of this package
)
HIGHER = statement(
    "executions.explain_higher",
    f"""
    SELECT o.priority FROM executions AS o WHERE {_LANE} AND o.priority > :priority AND {CLAIMABLE}
     ORDER BY o.priority, o.run_at, o.execution_id LIMIT 1
    """,  # noqa: S608 - constants of this package
)
DUE = statement(
    "executions.explain_due",
    f"""
    SELECT count(*) AS due FROM (
      SELECT o.execution_id FROM executions AS o
       WHERE {_LANE} AND o.priority = :priority AND {CLAIMABLE} AND o.run_at <= now()
       ORDER BY o.run_at, o.execution_id LIMIT :most) AS due
    """,  # noqa: S608 - constants of this package
)


# Keys take turns behind the limits of their endpoint, and shards behind those of a key too. A part of what waits is
# enough to see other shards.
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


@dataclass(frozen=True, slots=True)
class _Line:
    """How many workers serve the queue, and how many executions of the same endpoint and key go first."""

    workers: int
    ahead: int

    @property
    def is_long(self) -> bool:
        return self.ahead > MOST_AHEAD

    @property
    def before(self) -> str:
        return f"more than {MOST_AHEAD}" if self.is_long else str(self.ahead)


def explain_due(database: Database, facts: Facts, details: dict[str, Any]) -> Explanation:
    """Explain why an execution that is due has not started."""
    status, since = facts.status, facts.run_at
    if facts.endpoint_paused_at is not None:
        text = f"It is due, but its endpoint {facts.endpoint!r} is paused; it goes on when that is resumed."
        return Explanation(status, "ENDPOINT_PAUSED", text, max(since, facts.endpoint_paused_at), None, details)
    if facts.queue_paused_at is not None:
        details["queue"] = facts.queue
        text = f"It is due, but its queue {facts.queue!r} is paused; it goes on when that is resumed."
        return Explanation(status, "QUEUE_PAUSED", text, max(since, facts.queue_paused_at), None, details)
    line = _line(database, facts)
    details |= {"queue": facts.queue, "workers": line.workers, "ahead": min(line.ahead, MOST_AHEAD)}
    if not line.workers:
        text = f"It has been due since {at(since)}, and no live worker serves the queue {facts.queue!r}."
        return Explanation(status, "NO_WORKER", text, since, None, details)
    held = _broken(database, facts, details) or _limited(database, facts, line, details)
    if held is not None:
        return held
    if line.ahead:
        first = f"{line.before} of its endpoint became due before it, or have a higher priority,"
        served = f"which {line.workers} live worker{' serves' if line.workers == 1 else 's serve'}"
        text = f"It is due, but {first} in the queue {facts.queue!r}, {served}."
        return Explanation(status, "BEHIND_OTHERS", text, since, None, details)
    text = f"It is due and the next of its endpoint in the queue {facts.queue!r}; a worker takes it when it has room."
    return Explanation(status, "NEXT_IN_QUEUE", text, since, None, details)


def _line(database: Database, facts: Facts) -> _Line:
    lane = {
        "queue": facts.queue,
        "shard": facts.shard,
        "endpoint": facts.endpoint,
        "limit_key": facts.limit_key,
        "priority": facts.priority,
    }
    own = {"run_at": facts.run_at, "execution_id": facts.execution_id, "most": MOST_AHEAD + 1}
    (found,) = database.fetch(AHEAD, lane | own)
    ahead = found.ahead
    for _ in range(MOST_PRIORITIES):
        higher = database.fetch(HIGHER, lane) if ahead <= MOST_AHEAD else []
        if not higher:
            break
        lane["priority"] = higher[0].priority
        ahead += database.fetch(DUE, lane | {"most": MOST_AHEAD + 1 - ahead})[0].due
    return _Line(found.workers, ahead)


def _broken(database: Database, facts: Facts, details: dict[str, Any]) -> Explanation | None:
    shut = breakers_store.of_endpoint(database, facts.endpoint)
    if not shut:
        return None
    breaker = shut[0]
    details |= {"target": breaker.target, "breaker": breaker.state, "breaker_reason": breaker.reason}
    if breaker.state is BreakerState.OPEN and breaker.open_until is not None:
        until = breaker.open_until
        text = f"It is due, but nothing is sent to {breaker.target}, whose breaker is open until {at(until)}."
        return Explanation(facts.status, "BREAKER_OPEN", text, breaker.changed_at, until, details)
    text = f"It is due, but a single delivery probes {breaker.target}, whose breaker is half open; the others wait."
    return Explanation(facts.status, "BREAKER_OPEN", text, breaker.changed_at, None, details)


def _limited(database: Database, facts: Facts, line: _Line, details: dict[str, Any]) -> Explanation | None:
    for gate in _gates(database, facts):
        whose = f"its key {facts.limit_key[1:]!r}" if gate.gate.limit_key else "its endpoint"
        if gate.is_full:
            most = gate.gate.max_in_flight
            details |= {"max_in_flight": most, "in_flight": gate.state.in_flight}
            text = f"It is due, but of {whose} as many run as may ({most}), and {line.before} go before it"
            text += f"{_BESIDE}." if _is_shared(database, facts, gate) else "."
            return Explanation(facts.status, "CONCURRENCY_LIMITED", text, facts.run_at, None, details)
        rate, until = gate.gate.rate, gate.next_at(min(line.ahead, MOST_AHEAD) + 1)
        if rate is not None and until is not None:
            details |= {"rate": rate.as_json(), "tokens": gate.tokens}
            next_at = gate.next_at() or gate.now
            text = f"It is due, but of {whose} {rate_in_words(rate)} may start: the next at {at(next_at)}, "
            text += f"and {line.before} go before it"
            is_shared = _is_shared(database, facts, gate)
            text += f"{_BESIDE}." if is_shared else "."
            # Whose turn in a window comes later depends on when the earlier ones start.
            known = until if not is_shared and (not rate.is_sliding or not line.ahead) else None
            return Explanation(facts.status, "RATE_LIMITED", text, facts.run_at, known, details)
    return None


def _is_shared(database: Database, facts: Facts, gate: GateReading) -> bool:
    """Return whether others wait behind a gate that are neither before nor behind an execution: they take turns."""
    lane = {"shard": facts.shard, "endpoint": facts.endpoint, "limit_key": facts.limit_key, "most": MOST_AHEAD}
    if gate.gate.limit_key:
        (found,) = database.fetch(SHARED_BY_KEY, lane)
    else:
        (found,) = database.fetch(SHARED, lane | {"queue": facts.queue})
    is_shared: bool = found.is_shared
    return is_shared


def _gates(database: Database, facts: Facts) -> Iterator[GateReading]:
    """Read the gates of an execution: that of its key first."""
    limits = readable_limits(facts.limits, facts.endpoint)
    if limits is None:
        return
    gates = gates_of(limits, facts.endpoint, facts.limit_key, most_ahead=1)
    for gate in reversed(gates):
        yield read_gate(database, gate)
