"""Worker processes as people see them: who they are, what they serve, how busy they are."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from app.db import Database
from app.db.paging import Page, PageRequest, page_of
from app.sql import statement


class ProcessState(StrEnum):
    """What is known of a process: LOST is one that has been silent for too long, DEAD one that said that it ends."""

    ALIVE = "ALIVE"
    LOST = "LOST"
    DEAD = "DEAD"


_STATE = "CASE WHEN w.status = 'ALIVE' AND w.lease_expires_at <= now() THEN 'LOST' ELSE w.status END"
# Rows of a day: a process leaves one.
LIST = statement(
    "stats.workers",
    f"""
    SELECT w.worker_id, {_STATE} AS state, w.host, w.pid, w.queues, w.capacity, w.in_flight, w.started_at,
           w.last_beat_at, w.lease_expires_at
      FROM workers AS w
     WHERE (CAST(:state AS TEXT) IS NULL OR {_STATE} = :state)
       AND (CAST(:at AS TIMESTAMPTZ) IS NULL
            OR (w.started_at, w.worker_id) < (CAST(:at AS TIMESTAMPTZ), CAST(:key AS TEXT)))
     ORDER BY w.started_at DESC, w.worker_id DESC LIMIT :limit
    """,  # noqa: S608 - a constant of this module
)
COUNTS = statement(
    "stats.count_workers",
    f"""
    SELECT {_STATE} AS state, count(*) AS n, CAST(sum(w.capacity) AS BIGINT) AS capacity,
           CAST(sum(w.in_flight) AS BIGINT) AS in_flight
      FROM workers AS w GROUP BY 1
    """,  # noqa: S608 - a constant of this module
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker process: `in_flight` of its `capacity` slots were in use at its last heartbeat."""

    worker_id: str
    state: ProcessState
    host: str
    pid: int
    queues: Sequence[str]
    capacity: int
    in_flight: int
    started_at: datetime
    last_beat_at: datetime
    lease_expires_at: datetime


@dataclass(frozen=True, slots=True)
class Workers:
    """How many workers there are by their state, and the slots of those that are alive."""

    by_state: dict[ProcessState, int]
    capacity: int
    in_flight: int


def page(database: Database, state: ProcessState | None, wanted: PageRequest) -> Page[Worker]:
    """Read a page of workers, those that started last first; rows are kept for a day after a worker's end."""
    params = {"state": state, **wanted.bounds}
    return page_of(
        database.fetch(LIST, params),
        "started_at",
        "worker_id",
        wanted,
        lambda row: Worker(**row._asdict() | {"state": ProcessState(row.state)}),
    )


def count(database: Database) -> Workers:
    """Count them."""
    rows = {ProcessState(row.state): row for row in database.fetch(COUNTS)}
    alive = rows.get(ProcessState.ALIVE)
    slots = (0, 0) if alive is None else (alive.capacity, alive.in_flight)
    return Workers({state: rows[state].n if state in rows else 0 for state in ProcessState}, *slots)
