"""Held endpoints: endpoints whose executions wait for the end of a pause or for a limit."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Row

from app.features.limits.limiter_readings import read_limiter, waiting_of_several
from app.features.limits.store import limiters_of
from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.claiming.endpoint_rules import readable_limits

MOST_ENDPOINTS = 1_000  # endpoints read
MOST_GATES = 200  # endpoints with waiting executions whose limits are read

# By the index of endpoints with limits, a breaker or a pause.
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
    """Reason why an endpoint is held: a pause, its concurrency limit, or its rate limit."""

    PAUSED = "paused"
    CONCURRENCY = "concurrency"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class HeldEndpoint:
    """Endpoint with waiting executions: their number up to a bound, and the seconds until its rate admits the next."""

    endpoint: str
    hold: Hold
    waiting: int
    seconds: float | None


def read(database: Database) -> list[HeldEndpoint]:
    """Return held endpoints by name, out of the first MOST_ENDPOINTS that are paused or have limits.

    Only limits of the endpoint itself are read, not those of its keys: there may be very many.
    """
    rows = database.fetch(HOLDING, {"most": MOST_ENDPOINTS})
    waiting = waiting_of_several(database, [row.name for row in rows])
    paused = [
        HeldEndpoint(row.name, Hold.PAUSED, waiting[row.name], None)
        for row in rows
        if row.is_paused and row.name in waiting
    ]
    limited = [row for row in rows if not row.is_paused and row.name in waiting]
    found = (_limited(database, row, waiting[row.name]) for row in limited[:MOST_GATES])
    return sorted([*paused, *(held for held in found if held is not None)], key=lambda held: held.endpoint)


def count_paused(database: Database) -> int:
    number: int = database.fetch(PAUSED)[0].n
    return number


def _limited(database: Database, row: Row[Any], waiting: int) -> HeldEndpoint | None:
    limits = readable_limits(row.limits, row.name)
    for gate in limiters_of(limits, row.name, "", most_ahead=1) if limits is not None else ():
        reading = read_limiter(database, gate)
        next_at = reading.next_at()
        if reading.is_full:
            return HeldEndpoint(row.name, Hold.CONCURRENCY, waiting, None)
        if next_at is not None:
            return HeldEndpoint(row.name, Hold.RATE, waiting, (next_at - reading.now).total_seconds())
    return None
