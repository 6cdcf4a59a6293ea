"""Jobs as values: requested and stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.schedule.timetable import Timetable
from schema.states import EndpointType, ExecutionStatus, JobStatus, Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A requested job; times in UTC.

    A repeating one has its timetable, `starts_now` when the request gives no start, and later its first tick.
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
    version: int
    previous_version_id: str | None
    replaced_by_id: str | None
    first_version_id: str | None
    idempotency_key: str | None
    input: dict[str, Any]
    run_at: datetime | None
    timetable: Timetable | None
    next_run_at: datetime | None
    last_tick_at: datetime | None
    skipped_catch_up: int
    skipped_overlap: int
    created_at: datetime
    paused_at: datetime | None
    retired_at: datetime | None
    execution: ExecutionSummary | None

    @classmethod
    def from_columns(cls, row: Mapping[str, Any]) -> "Job":
        """Build a job from its row and the columns of its execution, where it has only one."""
        execution = None
        if row["execution_id"] is not None:
            status = ExecutionStatus(row["execution_status"])
            execution = ExecutionSummary(row["execution_id"], status, row["execution_created_at"])
        trigger = Trigger(row["trigger_type"])
        return cls(
            job_id=row["job_id"],
            endpoint=row["endpoint"],
            endpoint_type=EndpointType(row["endpoint_type"]),
            endpoint_version=row["endpoint_version"],
            trigger=trigger,
            status=JobStatus(row["status"]),
            version=row["version"],
            previous_version_id=row["previous_version_id"],
            replaced_by_id=row["replaced_by_id"],
            first_version_id=row["first_version_id"],
            idempotency_key=row["idempotency_key"],
            input=row["input"],
            run_at=row["run_at"],
            timetable=Timetable.stored(row) if trigger.repeats else None,
            next_run_at=row["cron_next_run_at"],
            last_tick_at=row["cron_last_tick_at"],
            skipped_catch_up=row["skipped_catch_up"],
            skipped_overlap=row["skipped_overlap"],
            created_at=row["created_at"],
            paused_at=row["paused_at"],
            retired_at=row["retired_at"],
            execution=execution,
        )

    @property
    def first_id(self) -> str:
        """The id of the first version."""
        return self.first_version_id or self.job_id
