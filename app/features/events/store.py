"""Event store: pages of events behind a position, up to the horizon before which no further event can appear.

A late commit appears before events that readers have seen already. Events are therefore read only up to the horizon
(`app.queue.reading.horizon`), before which the order by instant is final.
"""

from collections.abc import Collection, Sequence
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
    """Events in order, the number of all that were read, the position behind them, and whether the end was reached."""

    events: list[Event]
    count: int
    up_to: EventPosition
    is_end: bool


def read(
    database: Database,
    after: EventPosition,
    until: datetime,
    groups: Collection[str],
    *,
    limit: int = PAGE,
    labelled: bool = False,
    without: Collection[EventKind] = (),
) -> ReadEvents:
    """Read a page of events of some groups behind a position and before an instant; with labels if `labelled`.

    Events of the kinds in `without` fill the page, but are left out.
    """
    params = params_of(after, until, groups, limit=limit, labelled=labelled)
    rows = database.fetch(PAGE_OF_EVENTS, params)
    events = _events(rows, without)
    if len(rows) == limit:
        return ReadEvents(events, limit, EventPosition(rows[-1].at, rows[-1].source, rows[-1].key), is_end=False)
    return ReadEvents(events, len(rows), max(after, EventPosition(until), key=attrgetter("at")), is_end=True)


def read_whole(
    database: Database, after: EventPosition, until: datetime, groups: Collection[str], *, most: int
) -> list[Event] | None:
    """Read all events of a time; None, without the work of building them, if there may be more than `most`."""
    rows = database.fetch(PAGE_OF_EVENTS, params_of(after, until, groups, limit=most))
    return None if len(rows) == most else _events(rows)


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


def _events(rows: Sequence[Row[Any]], without: Collection[EventKind] = ()) -> list[Event]:
    wanted = (row for row in rows if row.kind not in without)
    return [_event(row) for row in wanted if row.details.get("resource_type") not in _HIDDEN]


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
