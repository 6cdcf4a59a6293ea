"""Statistics of the whole service: queues, held endpoints, breakers, workers, schedules and dead letters."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple, Self

from sqlalchemy import Row

from app.features.breakers import store as breakers
from app.features.control import store
from app.features.control.store import Workers
from app.features.dead_letters import metrics as dead_letters
from app.features.dead_letters.metrics import LATE_SECONDS, OpenLetters
from app.features.limits.rules import limiters_of
from app.features.limits.store import read_limiter, waiting_of_endpoints
from app.features.queues import store as queues
from app.features.queues.store import Queue
from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.claiming.endpoint_rules import readable_limits
from schema.states import BreakerState

MAX_ENDPOINTS = 1_000  # paused or limited endpoints that are read
MAX_LIMITED = 200  # limited endpoints with waiting executions that are read

# The condition of the index of endpoints with limits, a breaker or a pause.
_INDEXED = "(limits IS NOT NULL OR breaker IS NOT NULL OR paused_at IS NOT NULL) AND deleted_at IS NULL"
HOLDING = statement(
    "stats.holding",
    """
    SELECT name, limits, paused_at IS NOT NULL AS is_paused FROM endpoints
     WHERE {indexed} AND (limits IS NOT NULL OR paused_at IS NOT NULL) ORDER BY name LIMIT :most
    """,
    indexed=_INDEXED,
)
PAUSED = statement(
    "stats.paused",
    "SELECT count(*) AS n FROM endpoints WHERE {indexed} AND paused_at IS NOT NULL",
    indexed=_INDEXED,
)
# The index holds the jobs with a next run, earliest first.
LAG = statement(
    "stats.lag",
    """
    SELECT CAST(EXTRACT(EPOCH FROM (now() - cron_next_run_at)) AS DOUBLE PRECISION) AS seconds FROM jobs
     WHERE cron_next_run_at IS NOT NULL ORDER BY cron_next_run_at, job_id LIMIT 1
    """,
)


class Hold(StrEnum):
    """Reason why an endpoint is held: a pause, its concurrency limit, or its rate limit."""

    PAUSED = "paused"
    CONCURRENCY = "concurrency"
    RATE = "rate"


class HeldEndpoint(NamedTuple):
    """Endpoint with waiting executions: their number up to a bound, and the seconds until its rate admits the next."""

    endpoint: str
    hold: Hold
    waiting: int
    seconds: float | None


class ServiceStatistics(NamedTuple):
    """Statistics of the whole service; `queues` has MAX_QUEUES entries at most."""

    queues: Sequence[Queue]
    queues_left_out: int  # have waiting executions, too
    held: Sequence[HeldEndpoint]
    paused_endpoints: int
    breakers: Mapping[BreakerState, int]
    workers: Workers
    seconds_behind: float  # age of the most overdue tick
    open_letters: Sequence[OpenLetters]
    late_ends: int

    @classmethod
    def read(cls, database: Database, shards: int) -> Self:
        known = queues.known(database, queues.MAX_QUEUES)
        return cls(
            queues.read(database, known.workers, shards),
            known.left_out,
            held_endpoints(database),
            database.fetch(PAUSED)[0].n,
            breakers.count_by_state(database),
            store.count_workers(database),
            max([0.0, *(row.seconds for row in database.fetch(LAG))]),
            dead_letters.open_letters(database),
            dead_letters.late_ends(database, late_seconds=LATE_SECONDS),
        )


def held_endpoints(database: Database) -> list[HeldEndpoint]:
    """Return held endpoints by name, out of the first MAX_ENDPOINTS that are paused or have limits.

    Only limits of the endpoint itself are read, not limits of its keys: there may be very many.
    """
    rows = database.fetch(HOLDING, {"most": MAX_ENDPOINTS})
    waiting = waiting_of_endpoints(database, [row.name for row in rows])
    rows = [row for row in rows if row.name in waiting]
    paused = [HeldEndpoint(row.name, Hold.PAUSED, waiting[row.name], None) for row in rows if row.is_paused]
    limited = [row for row in rows if not row.is_paused][:MAX_LIMITED]
    found = (_limited(database, row, waiting[row.name]) for row in limited)
    return sorted([*paused, *(held for held in found if held is not None)], key=attrgetter("endpoint"))


def _limited(database: Database, row: Row[Any], waiting: int) -> HeldEndpoint | None:
    limits = readable_limits(row.limits, row.name)
    for limiter in limiters_of(limits, row.name, "", most_ahead=1) if limits is not None else ():
        reading = read_limiter(database, limiter)
        next_at = reading.next_at()
        if reading.is_full:
            return HeldEndpoint(row.name, Hold.CONCURRENCY, waiting, None)
        if next_at is not None:
            return HeldEndpoint(row.name, Hold.RATE, waiting, (next_at - reading.now).total_seconds())
    return None
