"""Heartbeats: one row for each worker, scheduler and web process, by region, for display only.

A worker's right to its claims is its lease (`app.kernel.processes.worker_lease`), which is independent of heartbeats.
"""

import json
import os
import socket
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Row

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.db.deletion import deletion
from app.kernel.processes.clock_offset import ClockReading, read_clocks
from app.kernel.sql import statement
from app.kernel.version import tzdata_version, version

HEARTBEAT_SECONDS = 5.0
_MS = timedelta(milliseconds=1)

# A process marks itself as DEAD at its end. A late heartbeat does not change that.
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

# Components are new at each start. A process that had lost its connection to the database writes its row again.
PRUNE = deletion(
    "health.prune",
    "region_heartbeats",
    ["region", "component"],
    "last_beat_at < now() - INTERVAL '10 minutes'",
)


class Status(StrEnum):
    """Status in the last heartbeat of a process: DEAD at its end."""

    ALIVE = "ALIVE"
    DEAD = "DEAD"


class ProcessKind(Enum):
    """Kind of a process: the first part of its component's name."""

    WORKER = "worker"
    SCHEDULER = "scheduler"
    WEB = "web"


@dataclass(frozen=True, slots=True)
class Component:
    """Identity of this process in its heartbeats; the id of a worker is also the id of its lease."""

    region: str
    kind: ProcessKind
    id: str = field(default_factory=ids.process_id)
    started_at: float = field(default_factory=time.monotonic)

    @property
    def name(self) -> str:
        return f"{self.kind.value}/{self.id}"


class ProcessRecord(NamedTuple):
    """State of a process according to its heartbeats.

    `silence_seconds` is the time since the last heartbeat, by the database's clock. `clock` and `tzdata_version` are
    None for a process of a release that does not report them.
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
    tzdata_version: str | None


def beat(database: Database, component: Component) -> None:
    """Write a heartbeat with the clock's offset; waits for locks for 100 ms at most."""
    clock = read_clocks(database)
    metadata = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "version": version(),
        "tzdata_version": tzdata_version(),
    }
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
    """Read the processes, of one kind or all, including processes that ended within the last ten minutes.

    Rows of later releases that this release cannot read are left out.
    """
    rows = database.fetch(PROCESSES, {"pattern": "%" if kind is None else f"{kind.value}/%"})
    return [process for row in rows if (process := _process(row)) is not None]


def _process(row: Row[Any]) -> ProcessRecord | None:
    kind, _, process_id = row.component.partition("/")
    about = row.metadata
    try:
        has_clock = "ahead" in about and "bound" in about
        return ProcessRecord(
            region=row.region,
            kind=ProcessKind(kind),
            id=process_id,
            status=Status(row.status),
            host=about["host"],
            pid=about["pid"],
            version=about["version"],
            started_at=datetime.fromisoformat(about["started_at"]),
            last_beat_at=row.last_beat_at,
            silence_seconds=row.silence.total_seconds(),
            clock=ClockReading(about["ahead"] * _MS, about["bound"] * _MS) if has_clock else None,
            tzdata_version=about.get("tzdata_version"),
        )
    except (KeyError, TypeError, ValueError):
        return None
