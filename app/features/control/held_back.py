"""Held back: endpoints at which executions wait although workers have room, because of a pause or a limit."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Row

from app.features.limits.reasons import read_gate, waiting_of_several
from app.features.limits.store import gates_of
from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.claiming.endpoint_rules import readable_limits

MOST_ENDPOINTS = 1_000  # that are looked at
MOST_GATES = 200  # of those at which something waits

# By the index of the endpoints of which workers must know more than the versions say.
HOLDING = statement(
    "stats.holding",
    """
    SELECT name, limits, paused_at IS NOT NULL AS is_paused FROM endpoints
     WHERE (limits IS NOT NULL OR breaker IS NOT NULL OR paused_at IS NOT NULL)
       AND (limits IS NOT NULL OR paused_at IS NOT NULL) AND deleted_at IS NULL
     ORDER BY name LIMIT :most
    """,
)
PAUSED = statement(
    "stats.paused",
    """
    SELECT count(*) AS n FROM endpoints
     WHERE (limits IS NOT NULL OR breaker IS NOT NULL OR paused_at IS NOT NULL)
       AND paused_at IS NOT NULL AND deleted_at IS NULL
    """,
)


class Hold(StrEnum):
    """What holds an endpoint back: it is paused, as many run as may, or as many were started."""

    PAUSED = "paused"
    CONCURRENCY = "concurrency"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Held:
    """An endpoint at which executions wait: how many, up to a bound, and for how long a rate lets none start."""

    endpoint: str
    hold: Hold
    waiting: int
    seconds: float | None


def read(database: Database) -> list[Held]:
    """Find them, in the order of their names, among the first MOST_ENDPOINTS that are paused or have limits.

    Only an endpoint's own limits are looked at: its keys may be very many.
    """
    rows = database.fetch(HOLDING, {"most": MOST_ENDPOINTS})
    waiting = waiting_of_several(database, [row.name for row in rows])
    paused = [
        Held(row.name, Hold.PAUSED, waiting[row.name], None) for row in rows if row.is_paused and row.name in waiting
    ]
    limited = [row for row in rows if not row.is_paused and row.name in waiting]
    found = (_limited(database, row, waiting[row.name]) for row in limited[:MOST_GATES])
    return sorted([*paused, *(held for held in found if held is not None)], key=lambda held: held.endpoint)


def count_paused(database: Database) -> int:
    """Count the endpoints that are paused."""
    number: int = database.fetch(PAUSED)[0].n
    return number


def _limited(database: Database, row: Row[Any], waiting: int) -> Held | None:
    limits = readable_limits(row.limits, row.name)
    for gate in gates_of(limits, row.name, "", most_ahead=1) if limits is not None else ():
        reading = read_gate(database, gate)
        next_at = reading.next_at()
        if reading.is_full:
            return Held(row.name, Hold.CONCURRENCY, waiting, None)
        if next_at is not None:
            return Held(row.name, Hold.RATE, waiting, (next_at - reading.now).total_seconds())
    return None
