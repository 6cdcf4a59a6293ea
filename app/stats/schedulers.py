"""Scheduler processes as people see them, by their heartbeats."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from app.db import Database
from app.db.paging import Page, PageRequest, Position
from app.health import heartbeat
from app.health.heartbeat import BEAT_SECONDS, Kind, Process

LOST_SECONDS = 3 * BEAT_SECONDS


class ProcessState(StrEnum):
    """What is known of a process: LOST is one that was silent for LOST_SECONDS, DEAD one that said that it ends."""

    ALIVE = "ALIVE"
    LOST = "LOST"
    DEAD = "DEAD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """A scheduler process."""

    scheduler_id: str
    state: ProcessState
    region: str
    host: str
    pid: int
    version: str
    started_at: datetime
    last_beat_at: datetime

    @classmethod
    def of(cls, process: Process) -> Self:
        """Take it from its heartbeats."""
        state = ProcessState(process.status)
        if state is ProcessState.ALIVE and process.silence_seconds > LOST_SECONDS:
            state = ProcessState.LOST
        return cls(
            scheduler_id=process.id,
            state=state,
            region=process.region,
            host=process.host,
            pid=process.pid,
            version=process.version,
            started_at=process.started_at,
            last_beat_at=process.last_beat_at,
        )

    @property
    def position(self) -> Position:
        """Its place in the list."""
        return Position(self.started_at, self.scheduler_id)


def page(database: Database, state: ProcessState | None, wanted: PageRequest) -> Page[Scheduler]:
    """Read a page of schedulers, those that started last first; rows are kept for ten minutes after the last beat."""
    found = map(Scheduler.of, heartbeat.processes(database, Kind.SCHEDULER))
    chosen = [each for each in found if state is None or each.state is state]
    listed = sorted(chosen, key=lambda each: each.position, reverse=True)
    if wanted.after is not None:
        listed = [each for each in listed if each.position < wanted.after]
    shown = listed[: wanted.limit]
    return Page(shown, shown[-1].position if len(listed) > len(shown) else None)
