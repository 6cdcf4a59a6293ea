"""Breakers as people see them: which there are, what became of them, and closing one by hand.

Those that had no failure of late are deleted: what has no row is closed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from app.features.breakers import target_rows
from app.features.breakers.rules import Reason, Transition
from app.features.breakers.target_rows import Noted
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, page_of
from app.kernel.errors import BreakerNotFoundError, ConflictError
from app.kernel.sql import statement
from schema.states import BreakerState

MOST_ENDPOINTS = 100  # that are shown of a breaker
MOST_TRIES = 5

_COLUMNS = """target, state, revision, reason, failed, results, changed_at, open_until, probe_worker, probe_until,
           watched_until"""
LIST = statement(
    "breakers.list",
    f"""
    SELECT {_COLUMNS} FROM breakers
     WHERE (CAST(:state AS TEXT) IS NULL OR state = :state)
       AND (CAST(:at AS TIMESTAMPTZ) IS NULL
            OR (changed_at, target) < (CAST(:at AS TIMESTAMPTZ), CAST(:key AS TEXT)))
     ORDER BY changed_at DESC, target DESC LIMIT :limit
    """,  # noqa: S608 - a constant of this module
)
GET = statement(
    "breakers.get",
    f"SELECT {_COLUMNS} FROM breakers WHERE target = :target",  # noqa: S608 - a constant of this module
)
ENDPOINTS = statement(
    "breakers.endpoints",
    """
    SELECT target, endpoint FROM (
      SELECT target, endpoint, row_number() OVER (PARTITION BY target ORDER BY endpoint) AS place
        FROM breaker_endpoints WHERE target = ANY (CAST(:targets AS TEXT[]))) AS found
     WHERE place <= CAST(:most AS BIGINT) ORDER BY target, endpoint
    """,
)
# What is due would have been probed by now, if anything led there still: an endpoint that was changed leads elsewhere.
_COUNTS = "b.state IN ('open', 'half_open') AND COALESCE(b.probe_until, b.open_until) > now() - INTERVAL '1 minute'"
OF_ENDPOINT = statement(
    "breakers.of_endpoint",
    f"""
    SELECT b.target, b.state, b.revision, b.reason, b.failed, b.results, b.changed_at, b.open_until, b.probe_worker,
           b.probe_until, b.watched_until
      FROM breaker_endpoints AS e JOIN breakers AS b ON b.target = e.target
     WHERE e.endpoint = :endpoint AND {_COUNTS}
       AND NOT EXISTS (SELECT 1 FROM endpoints AS p WHERE p.name = e.endpoint AND p.breaker = CAST('"off"' AS JSONB))
     ORDER BY b.target
    """,  # noqa: S608 - a constant of this module
)
COUNT_BY_STATE = statement(
    "breakers.count_by_state",
    f"SELECT b.state, count(*) AS n FROM breakers AS b WHERE {_COUNTS} GROUP BY b.state",  # noqa: S608 - as above
)
EVENTS = statement(
    "breakers.events",
    """
    SELECT event_id, target, from_state, to_state, reason, actor, open_until, occurred_at FROM breaker_events
     WHERE target = :target
       AND (CAST(:at AS TIMESTAMPTZ) IS NULL
            OR (occurred_at, event_id) < (CAST(:at AS TIMESTAMPTZ), CAST(:key AS TEXT)))
     ORDER BY occurred_at DESC, event_id DESC LIMIT :limit
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """A stored breaker; `failed` of `results` are the figures that opened it."""

    target: str
    state: BreakerState
    revision: int
    reason: str | None
    failed: int | None
    results: int | None
    changed_at: datetime
    open_until: datetime | None
    probe_worker: str | None
    probe_until: datetime | None
    watched_until: datetime
    endpoints: Sequence[str] = ()

    @property
    def noted(self) -> Noted:
        """Return it as a change needs it."""
        return Noted(self.target, self.state, self.revision, self.changed_at, None, self.probe_worker)


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerEvent:
    """A change of a breaker's state."""

    event_id: str
    target: str
    from_state: BreakerState
    to_state: BreakerState
    reason: str
    actor: str | None
    open_until: datetime | None
    occurred_at: datetime


def page(database: Database, state: BreakerState | None, wanted: PageRequest) -> Page[Breaker]:
    """Read a page of breakers, those that changed last first, with endpoints that lead to them."""
    rows = database.fetch(LIST, {"state": state} | wanted.bounds)
    leading = _endpoints(database, [row.target for row in rows])
    return page_of(rows, "changed_at", "target", wanted, lambda row: _breaker(row, leading.get(row.target, ())))


def get(database: Database, target: str) -> Breaker:
    """Read a breaker; raises BreakerNotFoundError."""
    rows = database.fetch(GET, {"target": target})
    if not rows:
        raise BreakerNotFoundError.of(target)
    return _breaker(rows[0], _endpoints(database, [target]).get(target, ()))


def of_endpoint(database: Database, endpoint: str) -> list[Breaker]:
    """Read the breakers that are not closed of the targets that an endpoint leads to; none where it has none."""
    return [_breaker(row) for row in database.fetch(OF_ENDPOINT, {"endpoint": endpoint})]


def count_open(database: Database) -> int:
    """Count the breakers that are not closed."""
    return sum(count_by_state(database).values())


def count_by_state(database: Database) -> dict[BreakerState, int]:
    """Count the breakers that are open, and those that are half open."""
    counted = {row.state: row.n for row in database.fetch(COUNT_BY_STATE)}
    return {state: counted.get(state, 0) for state in (BreakerState.OPEN, BreakerState.HALF_OPEN)}


def events(database: Database, target: str, wanted: PageRequest) -> Page[BreakerEvent]:
    """Read a page of what became of a breaker, newest first; raises BreakerNotFoundError when nothing is known of it.

    What happened is known for longer than the breaker itself.
    """
    rows = database.fetch(EVENTS, {"target": target} | wanted.bounds)
    if not rows and wanted.after is None:
        get(database, target)
    return page_of(rows, "occurred_at", "event_id", wanted, _event)


def close(database: Database, target: str, actor: str) -> Breaker:
    """Close a breaker by hand, whatever its probe would say; one that is closed stays so.

    Raises BreakerNotFoundError, and ConflictError where workers change it faster.
    """
    for _ in range(MOST_TRIES):
        found = get(database, target)
        if found.state is BreakerState.CLOSED:
            return found
        target_rows.change(database, found.noted, Transition(BreakerState.CLOSED, Reason.CLOSED_BY_HAND), actor)
    raise ConflictError("The breaker keeps changing; try again.")


def _endpoints(database: Database, of: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    rows = database.fetch(ENDPOINTS, {"targets": list(of), "most": MOST_ENDPOINTS}) if of else ()
    for row in rows:
        found.setdefault(row.target, []).append(row.endpoint)
    return found


def _breaker(row: Row[Any], endpoints: Sequence[str] = ()) -> Breaker:
    return Breaker(**row._asdict() | {"state": BreakerState(row.state), "endpoints": endpoints})


def _event(row: Row[Any]) -> BreakerEvent:
    states = {name: BreakerState(getattr(row, name)) for name in ("from_state", "to_state")}
    return BreakerEvent(**row._asdict() | states)
