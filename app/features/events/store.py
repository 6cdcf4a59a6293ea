"""Event store: pages of events behind a position, up to the horizon before which no further event can appear.

A row carries the start of its transaction and becomes visible at its commit, so a late commit appears before events
that readers have seen already. Events are therefore read only up to the start of the oldest open transaction (the
horizon). Before the horizon, the order by instant is final.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any

from sqlalchemy import Row

from app.features.events.event import SOURCES, Event, EventKind, EventPosition
from app.features.events.event_arms import ARMS
from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.executions.node_key import NodeKey

PAGE = 500
# Longer than a transaction of the service may last: three statements of 10 s, and the time until it is cut.
LONGEST_TRANSACTION_SECONDS = 40

# A transaction that calls te_enqueue may last longer; readers wait for it no longer than this.
LONGEST_CALLERS_SECONDS = 600

# A transaction gets its instant a moment before it is visible, hence the second. Transactions older than the bound are
# dumps or sessions of people, unless they write jobs by te_enqueue. The start of other users' transactions may be
# hidden, but not their existence: such a transaction counts as old as the bound.
HORIZON = statement(
    "events.horizon",
    """
    SELECT CASE WHEN count(*) FILTER (
                       WHERE query = '<insufficient privilege>'
                         AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'virtualxid')) > 0
                THEN now() - INTERVAL '{longest_transaction_seconds} seconds'
                ELSE LEAST(now(), min(LEAST(xact_start, query_start)) FILTER (
                       WHERE (xact_start IS NOT NULL OR state = 'active')
                         AND (LEAST(xact_start, query_start) > now() - INTERVAL '{longest_transaction_seconds} seconds'
                              OR xact_start > now() - INTERVAL '{longest_callers_seconds} seconds'
                                 AND pid IN (SELECT pid FROM pg_locks
                                              WHERE relation = to_regclass('jobs') AND mode = 'RowExclusiveLock'))))
                     - INTERVAL '1 second' END AS horizon, now() AS now
      FROM pg_stat_activity
     WHERE datname = current_database() AND usesysid IS NOT NULL
    """,
    longest_transaction_seconds=LONGEST_TRANSACTION_SECONDS,
    longest_callers_seconds=LONGEST_CALLERS_SECONDS,
)
BEHIND_ALL = statement(
    "events.behind_all",
    "SELECT now() - INTERVAL '{longest_transaction_seconds} seconds' AS horizon, now() AS now",
    longest_transaction_seconds=LONGEST_TRANSACTION_SECONDS,
)

PAGE_OF_EVENTS = statement(
    "events.page",
    "SELECT * FROM ({arms}) AS found ORDER BY at, source, key LIMIT :limit",
    arms=" UNION ALL ".join(ARMS),
)

_OF_GROUP = {
    "attempt": "a",
    "execution": "ae",
    "job": "jr",
    "worker": "st",
    "breaker": "b",
    "catalogue": "c",
    "workflow": "w",
}
_HIDDEN = frozenset({"api_key"})  # API keys concern administrators only


@dataclass(frozen=True, slots=True)
class ReadEvents:
    """Events in order, the position behind them, and whether the end was reached."""

    events: list[Event]
    up_to: EventPosition
    is_end: bool


def horizon(database: Database) -> datetime:
    """Return the instant before which no further event can appear."""
    return horizon_and_now(database)[0]


def horizon_and_now(database: Database) -> tuple[datetime, datetime]:
    """Return the horizon (see `horizon`) and the time of the database."""
    row = database.fetch(BEHIND_ALL if database.is_cockroach else HORIZON)[0]
    return row.horizon, row.now


def read(
    database: Database,
    after: EventPosition,
    until: datetime,
    groups: Collection[str],
    *,
    limit: int = PAGE,
    labelled: bool = False,
) -> ReadEvents:
    """Read a page of events of some groups behind a position and before an instant; with labels if `labelled`."""
    params = params_of(after, until, groups, limit=limit, labelled=labelled)
    rows = database.fetch(PAGE_OF_EVENTS, params)
    events = [_event(row) for row in rows if row.details.get("resource_type") not in _HIDDEN]
    if len(rows) == limit:
        return ReadEvents(events, EventPosition(rows[-1].at, rows[-1].source, rows[-1].key), is_end=False)
    return ReadEvents(events, max(after, EventPosition(until), key=attrgetter("at")), is_end=True)


def params_of(
    after: EventPosition, until: datetime, groups: Collection[str], *, limit: int, labelled: bool = False
) -> dict[str, Any]:
    """Return the parameters of PAGE_OF_EVENTS."""
    wanted = {source for group in groups for source in _OF_GROUP[group]}
    params: dict[str, Any] = {"until": until, "limit": limit, "labelled": labelled}
    for source in SOURCES:
        params[f"with_{source}"] = source in wanted
        params[f"at_{source}"], params[f"key_{source}"] = after.of_source(source)
    return params


def _event(row: Row[Any]) -> Event:
    details, workflow_id = row.details, row.belongs_to if row.source == "w" else None
    if row.source != "w" and (node := NodeKey.parse(row.belongs_to)) is not None:
        workflow_id = node.workflow_id
        details = {**details, "node": node.node, "item": node.item, "run": node.run}
    return Event(
        position=EventPosition(row.at, row.source, row.key),
        kind=EventKind(row.kind),
        at=row.at,
        endpoint=row.endpoint,
        job_id=row.job_id,
        execution_id=row.execution_id,
        subject=row.subject,
        details={name: value for name, value in details.items() if value is not None},
        labels=row.labels if isinstance(row.labels, dict) else None,
        workflow_id=workflow_id,
    )
