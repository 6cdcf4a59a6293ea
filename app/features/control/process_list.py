"""Processes as people see them, by their heartbeats: web processes, schedulers, workers."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Self

from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, Position
from app.kernel.processes import process_heartbeat
from app.kernel.processes.process_heartbeat import BEAT_SECONDS, Kind

LOST_SECONDS = 3 * BEAT_SECONDS


class ProcessState(StrEnum):
    """What is known of a process: LOST is one that was silent for LOST_SECONDS, DEAD one that said that it ends."""

    ALIVE = "ALIVE"
    LOST = "LOST"
    DEAD = "DEAD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process; its clock is so far ahead of the database's, to within a bound."""

    process_id: str
    kind: Kind
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
    def of(cls, told: process_heartbeat.Process) -> Self:
        """Take it from its heartbeats."""
        state = ProcessState(told.status)
        if state is ProcessState.ALIVE and told.silence_seconds > LOST_SECONDS:
            state = ProcessState.LOST
        clock = told.clock
        return cls(
            process_id=told.id,
            kind=told.kind,
            state=state,
            region=told.region,
            host=told.host,
            pid=told.pid,
            version=told.version,
            started_at=told.started_at,
            last_beat_at=told.last_beat_at,
            clock_ahead_seconds=None if clock is None else clock.ahead / timedelta(seconds=1),
            clock_bound_seconds=None if clock is None else clock.bound / timedelta(seconds=1),
        )

    @property
    def position(self) -> Position:
        """Its place in the list."""
        return Position(self.started_at, self.process_id)


def read(database: Database, kind: Kind | None = None, state: ProcessState | None = None) -> list[Process]:
    """Read those of a kind and in a state, or all; rows are kept for ten minutes after the last beat."""
    found = map(Process.of, process_heartbeat.processes(database, kind))
    return [each for each in found if state is None or each.state is state]


def page(database: Database, kind: Kind | None, state: ProcessState | None, wanted: PageRequest) -> Page[Process]:
    """Read a page of them, those that started last first."""
    listed = sorted(read(database, kind, state), key=lambda each: each.position, reverse=True)
    if wanted.after is not None:
        listed = [each for each in listed if each.position < wanted.after]
    shown = listed[: wanted.limit]
    return Page(shown, shown[-1].position if len(listed) > len(shown) else None)
