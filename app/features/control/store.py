"""Lists of processes: workers by their leases and commands, and all processes by their heartbeats."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, Position, page_of
from app.kernel.errors import WorkerNotFoundError
from app.kernel.processes import process_heartbeat
from app.kernel.processes.process_heartbeat import HEARTBEAT_SECONDS, ProcessKind, ProcessRecord
from app.kernel.processes.worker_commands import IS_DRAINING
from app.kernel.sql import statement

LOST_SECONDS = 3 * HEARTBEAT_SECONDS
_SECOND = timedelta(seconds=1)


class WorkerState(StrEnum):
    """State of a worker: LOST once its lease has expired, DEAD after a regular end.

    A worker that is asked to drain is DRAINING until its end, and DRAINED afterwards.
    """

    ALIVE = "ALIVE"
    DRAINING = "DRAINING"
    LOST = "LOST"
    DRAINED = "DRAINED"
    DEAD = "DEAD"


_STATE = f"""CASE WHEN w.status = 'ALIVE' AND w.lease_expires_at <= now() THEN 'LOST'
                WHEN NOT {IS_DRAINING} THEN w.status
                WHEN w.status = 'ALIVE' THEN 'DRAINING' ELSE 'DRAINED' END"""
_COLUMNS = f"""w.worker_id, {_STATE} AS state, w.host, w.pid, w.queues, w.capacity, w.in_flight, w.started_at,
           w.last_beat_at, w.lease_expires_at"""
# Each process of the last day has one row.
LIST = statement(
    "stats.workers",
    """
    SELECT {columns}
      FROM workers AS w
     WHERE (CAST(:state AS TEXT) IS NULL OR {state} = :state)
       AND (CAST(:at AS TIMESTAMPTZ) IS NULL
            OR (w.started_at, w.worker_id) < (CAST(:at AS TIMESTAMPTZ), CAST(:key AS TEXT)))
     ORDER BY w.started_at DESC, w.worker_id DESC LIMIT :limit
    """,
    columns=_COLUMNS,
    state=_STATE,
)
GET = statement(
    "stats.worker",
    "SELECT {columns} FROM workers AS w WHERE w.worker_id = :worker",
    columns=_COLUMNS,
)
COUNTS = statement(
    "stats.count_workers",
    """
    SELECT {state} AS state, count(*) AS n, CAST(sum(w.capacity) AS BIGINT) AS capacity,
           CAST(sum(w.in_flight) AS BIGINT) AS in_flight
      FROM workers AS w GROUP BY 1
    """,
    state=_STATE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedWorker:
    """A worker process: `in_flight` of its `capacity` slots were in use at its last heartbeat."""

    worker_id: str
    state: WorkerState
    host: str
    pid: int
    queues: Sequence[str]
    capacity: int
    in_flight: int
    started_at: datetime
    last_beat_at: datetime
    lease_expires_at: datetime


class Workers(NamedTuple):
    """Numbers of workers by state, and slots of live workers, draining workers included."""

    by_state: dict[WorkerState, int]
    capacity: int
    in_flight: int


class ProcessState(StrEnum):
    """State of a process: LOST after LOST_SECONDS without a heartbeat, DEAD after a regular end."""

    ALIVE = "ALIVE"
    LOST = "LOST"
    DEAD = "DEAD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process; its clock is `clock_ahead_seconds` ahead of the database's, within `clock_bound_seconds`."""

    process_id: str
    kind: ProcessKind
    state: ProcessState
    region: str
    host: str
    pid: int
    version: str
    tzdata_version: str | None
    started_at: datetime
    last_beat_at: datetime
    clock_ahead_seconds: float | None
    clock_bound_seconds: float | None


def page_of_workers(database: Database, state: WorkerState | None, wanted: PageRequest) -> Page[ListedWorker]:
    """Read a page of workers, newest first; rows are kept for a day after a worker's end."""
    return page_of(database.fetch(LIST, {"state": state, **wanted.bounds}), "started_at", "worker_id", wanted, _worker)


def get_worker(database: Database, worker_id: str) -> ListedWorker:
    """Read a worker; raises WorkerNotFoundError."""
    rows = database.fetch(GET, {"worker": worker_id})
    if not rows:
        raise WorkerNotFoundError.of(worker_id)
    return _worker(rows[0])


def count_workers(database: Database) -> Workers:
    """Count workers by state, and slots of live workers."""
    rows = {row.state: row for row in database.fetch(COUNTS)}
    by_state = {state: rows[state].n if state in rows else 0 for state in WorkerState}
    living = [rows[state] for state in (WorkerState.ALIVE, WorkerState.DRAINING) if state in rows]
    return Workers(by_state, sum(each.capacity for each in living), sum(each.in_flight for each in living))


def processes(database: Database, kind: ProcessKind | None = None, state: ProcessState | None = None) -> list[Process]:
    """Read processes, filtered by kind and state; rows are kept for ten minutes after the last heartbeat."""
    found = map(_process, process_heartbeat.processes(database, kind))
    return [each for each in found if state is None or each.state is state]


def page_of_processes(
    database: Database, kind: ProcessKind | None, state: ProcessState | None, wanted: PageRequest
) -> Page[Process]:
    key = attrgetter("started_at", "process_id")
    listed = sorted(processes(database, kind, state), key=key, reverse=True)
    if wanted.after is not None:
        listed = [each for each in listed if Position(*key(each)) < wanted.after]
    shown = listed[: wanted.limit]
    return Page(shown, Position(*key(shown[-1])) if len(listed) > len(shown) else None)


def _worker(row: Row[Any]) -> ListedWorker:
    return ListedWorker(**row._asdict() | {"state": WorkerState(row.state)})


def _process(record: ProcessRecord) -> Process:
    state = ProcessState(record.status)
    if state is ProcessState.ALIVE and record.silence_seconds > LOST_SECONDS:
        state = ProcessState.LOST
    same = ("kind", "region", "host", "pid", "version", "tzdata_version", "started_at", "last_beat_at")
    return Process(
        process_id=record.id,
        state=state,
        clock_ahead_seconds=None if record.clock is None else record.clock.ahead / _SECOND,
        clock_bound_seconds=None if record.clock is None else record.clock.bound / _SECOND,
        **{name: getattr(record, name) for name in same},
    )
