"""Jobs as values: what is asked for, and what there is."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.schedule.timetable import Timetable
from schema.states import EndpointType, ExecutionStatus, JobStatus, Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that a client asks for; times in UTC.

    A repeating one has its timetable, `starts_now` when no start was asked for, and later its first tick.
    """

    endpoint: str
    trigger: Trigger
    input: dict[str, Any]
    idempotency_key: str | None = None
    run_at: datetime | None = None
    timetable: Timetable | None = None
    starts_now: bool = False
    first_tick: datetime | None = None


@dataclass(frozen=True, slots=True)
class ExecutionSummary:
    """The execution of a one-shot job, in short."""

    execution_id: str
    status: ExecutionStatus
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored job; `execution` is that of a one-shot job, `timetable` that of a repeating one."""

    job_id: str
    endpoint: str
    endpoint_type: EndpointType
    endpoint_version: int
    trigger: Trigger
    status: JobStatus
    version: int = 1
    previous_version_id: str | None = None
    replaced_by_id: str | None = None
    first_version_id: str | None = None
    idempotency_key: str | None
    input: dict[str, Any]
    run_at: datetime | None
    timetable: Timetable | None
    next_run_at: datetime | None
    last_tick_at: datetime | None = None
    skipped_catch_up: int = 0
    skipped_overlap: int = 0
    created_at: datetime
    paused_at: datetime | None = None
    retired_at: datetime | None = None
    execution: ExecutionSummary | None = None

    @property
    def first_id(self) -> str:
        """The id of the first version."""
        return self.first_version_id or self.job_id
