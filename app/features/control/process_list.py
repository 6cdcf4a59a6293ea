"""Process list: web processes, schedulers and workers, by their heartbeats."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, Position
from app.kernel.processes import process_heartbeat
from app.kernel.processes.process_heartbeat import BEAT_SECONDS, ProcessKind

LOST_SECONDS = 3 * BEAT_SECONDS


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
    started_at: datetime
    last_beat_at: datetime
    clock_ahead_seconds: float | None
    clock_bound_seconds: float | None

    @classmethod
    def of(cls, record: process_heartbeat.ProcessRecord) -> Self:
        """Build it from its heartbeat row."""
        state = ProcessState(record.status)
        if state is ProcessState.ALIVE and record.silence_seconds > LOST_SECONDS:
            state = ProcessState.LOST
        clock = record.clock
        return cls(
            process_id=record.id,
            kind=record.kind,
            state=state,
            region=record.region,
            host=record.host,
            pid=record.pid,
            version=record.version,
            started_at=record.started_at,
            last_beat_at=record.last_beat_at,
            clock_ahead_seconds=None if clock is None else clock.ahead / timedelta(seconds=1),
            clock_bound_seconds=None if clock is None else clock.bound / timedelta(seconds=1),
        )

    @property
    def position(self) -> Position:
        """Return the position in the list."""
        return Position(self.started_at, self.process_id)


def read(database: Database, kind: ProcessKind | None = None, state: ProcessState | None = None) -> list[Process]:
    """Read processes, filtered by kind and state; rows are kept for ten minutes after the last heartbeat."""
    found = map(Process.of, process_heartbeat.processes(database, kind))
    return [each for each in found if state is None or each.state is state]


def page(
    database: Database, kind: ProcessKind | None, state: ProcessState | None, wanted: PageRequest
) -> Page[Process]:
    """Read a page of processes, newest first."""
    listed = sorted(read(database, kind, state), key=lambda each: each.position, reverse=True)
    if wanted.after is not None:
        listed = [each for each in listed if each.position < wanted.after]
    shown = listed[: wanted.limit]
    return Page(shown, shown[-1].position if len(listed) > len(shown) else None)
