"""Heartbeats: one row for each worker, scheduler and web process, by region; nothing acts on them.

A worker's right to its claims is its lease (`app.kernel.processes.worker_lease`), which they have nothing to do with.
"""

import json
import os
import socket
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Any

from sqlalchemy import Row

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.processes.clock_offset import ClockReading, read_clocks
from app.kernel.sql import statement
from app.kernel.version import version

BEAT_SECONDS = 5.0
_MS = timedelta(milliseconds=1)

# A process that was called dead, by itself at its end, never comes back: what is late of its beats changes nothing.
BEAT = statement(
    "health.beat",
    """
    INSERT INTO region_heartbeats (region, component, metadata)
    VALUES (:region, :component, CAST(:metadata AS JSONB) || CAST(:clock AS JSONB) || jsonb_build_object(
              'started_at', now() - CAST(:up_ms AS BIGINT) * INTERVAL '1 millisecond'))
    ON CONFLICT (region, component) DO UPDATE
       SET last_beat_at = now(), metadata = region_heartbeats.metadata || CAST(:clock AS JSONB)
     WHERE region_heartbeats.status <> 'DEAD'
    RETURNING component
    """,
)

LEAVE = statement(
    "health.leave",
    """
    UPDATE region_heartbeats SET status = 'DEAD', last_beat_at = now()
     WHERE region = :region AND component = :component
    RETURNING component
    """,
)

PROCESSES = statement(
    "health.processes",
    """
    SELECT region, component, status, last_beat_at, now() - last_beat_at AS silence, metadata FROM region_heartbeats
     WHERE component LIKE :pattern ORDER BY region, component
    """,
)

# Components are new at each start. A process that is only cut off from the database gets its row back.
PRUNE = statement(
    "health.prune",
    """
    WITH page AS MATERIALIZED (
      SELECT region, component FROM region_heartbeats
       WHERE last_beat_at < now() - INTERVAL '10 minutes'
       ORDER BY region, component LIMIT :limit)
    DELETE FROM region_heartbeats
     WHERE (region, component) IN (SELECT region, component FROM page)
       AND last_beat_at < now() - INTERVAL '10 minutes'
    RETURNING component
    """,
)


class Status(StrEnum):
    """What the last heartbeat of a process has said: DEAD, that it ends."""

    ALIVE = "ALIVE"
    DEAD = "DEAD"


class ProcessKind(Enum):
    """What a process is: the first part of its component."""

    WORKER = "worker"
    SCHEDULER = "scheduler"
    WEB = "web"


@dataclass(frozen=True, slots=True)
class Component:
    """This process, as its heartbeats name it; a worker's id is that of its lease."""

    region: str
    kind: ProcessKind
    id: str = field(default_factory=ids.process_id)
    started_at: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"{self.kind.value}/{self.id}"


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """What the heartbeats tell of a process; `silence_seconds` since the last one, by the database's clock.

    Its own clock is unknown where it is of a release that does not tell.
    """

    region: str
    kind: ProcessKind
    id: str
    status: Status
    host: str
    pid: int
    version: str
    started_at: datetime
    last_beat_at: datetime
    silence_seconds: float
    clock: ClockReading | None


def beat(database: Database, component: Component) -> None:
    """Write a sign of life, and what its clock says; hardly waits for whoever has locked the table."""
    clock = read_clocks(database)
    metadata = {"host": socket.gethostname(), "pid": os.getpid(), "version": version()}
    params = {
        "region": component.region,
        "component": component.name,
        "metadata": json.dumps(metadata),
        "clock": json.dumps({name: getattr(clock, name) / _MS for name in ("ahead", "bound")}),
        "up_ms": int((time.monotonic() - component.started_at) * 1000),
    }
    database.fetch_unless_locked(BEAT, params)


def leave(database: Database, component: Component) -> None:
    """Write the last heartbeat, DEAD."""
    database.fetch_unless_locked(LEAVE, {"region": component.region, "component": component.name})


def processes(database: Database, kind: ProcessKind | None = None) -> list[ProcessRecord]:
    """Read what is known of the processes, of a kind or all, also of those that ended within the last ten minutes.

    What a later release tells in another way is left out.
    """
    rows = database.fetch(PROCESSES, {"pattern": "%" if kind is None else f"{kind.value}/%"})
    return [process for row in rows if (process := _process(row)) is not None]


def prune(database: Database, *, limit: int) -> int:
    """Delete rows without a beat for ten minutes, up to `limit` of them; returns how many."""
    return len(database.fetch(PRUNE, {"limit": limit}))


def _process(row: Row[Any]) -> ProcessRecord | None:
    try:
        return _known(row)
    except (KeyError, TypeError, ValueError):
        return None


def _known(row: Row[Any]) -> ProcessRecord:
    kind, _, process_id = row.component.partition("/")
    told = row.metadata
    has_clock = "ahead" in told and "bound" in told
    return ProcessRecord(
        region=row.region,
        kind=ProcessKind(kind),
        id=process_id,
        status=Status(row.status),
        host=told["host"],
        pid=told["pid"],
        version=told["version"],
        started_at=datetime.fromisoformat(told["started_at"]),
        last_beat_at=row.last_beat_at,
        silence_seconds=row.silence.total_seconds(),
        clock=ClockReading(told["ahead"] * _MS, told["bound"] * _MS) if has_clock else None,
    )
