"""Breakers for the API: lists, history, and a manual close. A target without a row has a closed breaker."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Row

from app.features.breakers import target_rows
from app.features.breakers.rules import Reason, Transition
from app.features.breakers.target_rows import Standing
from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, page_of
from app.kernel.errors import BreakerNotFoundError, ConflictError
from app.kernel.sql import statement
from schema.states import BreakerState

MAX_TRIES = 5

_COLUMNS = """b.target, b.state, b.revision, b.reason, b.failed, b.results, b.changed_at, b.open_until, b.probe_worker,
           b.probe_until, ARRAY(SELECT e.endpoint FROM breaker_endpoints AS e WHERE e.target = b.target
                                 ORDER BY e.endpoint LIMIT 100) AS endpoints"""
LIST = statement(
    "breakers.list",
    f"""
    SELECT {_COLUMNS} FROM breakers AS b
     WHERE (CAST(:state AS TEXT) IS NULL OR b.state = :state)
       AND (CAST(:at AS TIMESTAMPTZ) IS NULL
            OR (b.changed_at, b.target) < (CAST(:at AS TIMESTAMPTZ), CAST(:key AS TEXT)))
     ORDER BY b.changed_at DESC, b.target DESC LIMIT :limit
    """,  # noqa: S608 - a constant of this module
)
GET = statement(
    "breakers.get",
    f"SELECT {_COLUMNS} FROM breakers AS b WHERE b.target = :target",  # noqa: S608 - a constant of this module
)
# Ignores breakers that no due execution has probed for a minute: their endpoints may resolve to other targets now.
_COUNTS = "b.state IN ('open', 'half_open') AND COALESCE(b.probe_until, b.open_until) > now() - INTERVAL '1 minute'"
OF_ENDPOINT = statement(
    "breakers.of_endpoint",
    f"""
    SELECT b.target, b.state, b.reason, b.changed_at, b.open_until
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

Shown = dict[str, Any]  # a breaker or an event


def page(database: Database, state: BreakerState | None, wanted: PageRequest) -> Page[Shown]:
    """Read a page of breakers, last changed first, each with its first 100 endpoints."""
    rows = database.fetch(LIST, {"state": state} | wanted.bounds)
    return page_of(rows, "changed_at", "target", wanted, _shown)


def get(database: Database, target: str) -> Shown:
    """Read a breaker; raise BreakerNotFoundError."""
    rows = database.fetch(GET, {"target": target})
    if not rows:
        raise BreakerNotFoundError.of(target)
    return _shown(rows[0])


def of_endpoint(database: Database, endpoint: str) -> Sequence[Row[Any]]:
    """Read the breakers that keep executions of an endpoint waiting."""
    return database.fetch(OF_ENDPOINT, {"endpoint": endpoint})


def count_by_state(database: Database) -> dict[BreakerState, int]:
    counted = {row.state: row.n for row in database.fetch(COUNT_BY_STATE)}
    return {state: counted.get(state, 0) for state in (BreakerState.OPEN, BreakerState.HALF_OPEN)}


def events(database: Database, target: str, wanted: PageRequest) -> Page[Shown]:
    """Read a page of a breaker's changes, newest first, kept longer than its row; raise BreakerNotFoundError."""
    rows = database.fetch(EVENTS, {"target": target} | wanted.bounds)
    if not rows and wanted.after is None:
        get(database, target)
    return page_of(rows, "occurred_at", "event_id", wanted, _shown)


def close(database: Database, target: str, actor: str) -> Shown:
    """Close a breaker without a probe; raises BreakerNotFoundError, and ConflictError if workers keep changing it."""
    for _ in range(MAX_TRIES):
        found = get(database, target)
        if found["state"] is BreakerState.CLOSED:
            return found
        before = Standing(target, found["state"], found["revision"])
        target_rows.change(database, before, Transition(BreakerState.CLOSED, Reason.CLOSED_BY_HAND), actor)
    raise ConflictError("Workers keep changing this breaker. Try again.")


def _shown(row: Row[Any]) -> Shown:
    return {name: BreakerState(value) if name.endswith("state") else value for name, value in row._asdict().items()}
