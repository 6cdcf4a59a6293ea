"""Active schedules: the timetables of repeating jobs, read without their inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Row

from app.kernel.db import Database
from app.kernel.db.chunked_scan import ChunkedRead, ListIndex
from app.kernel.db.paging import Part
from app.kernel.unreadable import readable
from app.queue.jobs.job_list import REPEATS, JobFilter
from app.schedule.timetable import Timetable
from schema import tables
from schema.states import JobStatus

_J = tables.jobs.c
_COLUMNS = (
    *(_J.job_id, _J.name, _J.endpoint, _J.created_at, _J.cron_next_run_at),
    *(_J.cron_expression, _J.cron_timezone, _J.interval_ms, _J.fixed_delay, _J.cron_starts_at, _J.cron_ends_at),
    *(_J.catch_up, _J.max_catch_up, _J.overlap, _J.skipped_catch_up, _J.skipped_overlap),
)
_STRIDE = 1000


class ActiveSchedule(NamedTuple):
    """A repeating job that is ACTIVE; `next_run_at` is None while a fixed delay waits for the end of an execution.

    `skipped_catch_up` missed ticks and `skipped_overlap` overlapping ticks of this version started no run.
    """

    job_id: str
    name: str | None
    endpoint: str
    created_at: datetime
    next_run_at: datetime | None
    timetable: Timetable
    skipped_catch_up: int
    skipped_overlap: int


class ScheduleBounds(NamedTuple):
    """Bounds of the read of schedules: most schedules, and its time."""

    most: int = 5_000
    seconds: float = 1.0


BOUNDS = ScheduleBounds()


def active_schedules(
    database: Database, wanted: JobFilter, bounds: ScheduleBounds = BOUNDS
) -> tuple[list[ActiveSchedule], bool]:
    """Read the active schedules that match a filter, newest first, whatever its `status`.

    Returns the schedules, and whether these are all: the read ends at its bounds.
    """
    wanted = replace(wanted, status=JobStatus.ACTIVE)
    leading: Mapping[ColumnElement[str], str] = {} if wanted.endpoint is None else {_J.endpoint: wanted.endpoint}
    index = ListIndex(_J.created_at, _J.job_id, (REPEATS,), leading)
    rows, after = ChunkedRead(bounds.seconds, _STRIDE).page(
        database,
        index,
        Part.between(wanted.created_after, wanted.created_before, None),
        columns=_COLUMNS,
        conditions=wanted.conditions(index),
        limit=bounds.most,
    )
    return _schedules(rows), after is None


def _schedules(rows: Sequence[Row[Any]]) -> list[ActiveSchedule]:
    # Attributes of a row, and its `_asdict`, look up their names in each row: half of the time for thousands of rows.
    names = rows[0]._fields if rows else ()
    return readable(lambda row: _schedule(dict(zip(names, row, strict=True))), rows, "job {.job_id}".format)


def _schedule(row: Mapping[str, Any]) -> ActiveSchedule:
    return ActiveSchedule(
        job_id=row["job_id"],
        name=row["name"],
        endpoint=row["endpoint"],
        created_at=row["created_at"],
        next_run_at=row["cron_next_run_at"],
        timetable=Timetable.stored(row),
        skipped_catch_up=row["skipped_catch_up"],
        skipped_overlap=row["skipped_overlap"],
    )
