"""Jobs as values: requested and stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from app.kernel.audit import SYSTEM, Actor
from app.kernel.tracing.context import TraceContext
from app.schedule.timetable import Timetable
from schema.job_bounds import OWN_KEY_PREFIX
from schema.states import EndpointType, ExecutionStatus, JobStatus, Trigger

if TYPE_CHECKING:  # only web processes load the schemas of specs for it
    from app.catalog.endpoints.inline import InlineEndpoint


def own_key(kind: str, unique: str) -> str:
    """Return the idempotency key of a job that the service itself creates; requests with such a key are refused."""
    return f"{OWN_KEY_PREFIX}{kind}:{unique}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A requested job; times in UTC.

    Queue and priority default to the endpoint's; `callbacks` override the endpoint's. A delayed job is due at `run_at`,
    or `delay_ms` milliseconds after its creation by the database's clock. A repeating job has a timetable and, once
    scheduled, its first tick. With `starts_now`, the request gives no start: the database's clock then sets
    `starts_at`, which is meaningless before. An `inline` endpoint is registered, in the name of `by`, if it is missing.
    """

    endpoint: str
    trigger: Trigger
    input: dict[str, Any]
    name: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    queue: str | None = None
    priority: int | None = None
    idempotency_key: str | None = None
    run_at: datetime | None = None
    delay_ms: int | None = None
    timetable: Timetable | None = None
    starts_now: bool = False
    first_tick: datetime | None = None
    callbacks: Mapping[str, str | None] | None = None
    trace: TraceContext | None = None
    inline: "InlineEndpoint | None" = None
    by: Actor = SYSTEM


class ExecutionSummary(NamedTuple):
    """Summary of a one-shot job's execution; `scheduled_at` is its planned time, `run_at` its latest due time."""

    execution_id: str
    queue: str
    status: ExecutionStatus
    created_at: datetime
    scheduled_at: datetime
    run_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored job: one-shot jobs have an `execution`, repeating jobs a `timetable`. Queue None: the endpoint's."""

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
    name: str | None
    labels: Mapping[str, str]
    queue: str | None
    priority: int | None
    limit_key: str
    input: dict[str, Any]
    run_at: datetime | None
    timetable: Timetable | None
    next_run_at: datetime | None
    last_tick_at: datetime | None
    skipped_catch_up: int
    skipped_overlap: int
    callbacks: Mapping[str, str | None] | None
    callback_of: str | None
    created_at: datetime
    paused_at: datetime | None
    retired_at: datetime | None
    execution: ExecutionSummary | None

    @classmethod
    def from_columns(cls, row: Mapping[str, Any]) -> "Job":
        """Build a job from its row, joined with the columns of a one-shot job's execution."""
        trigger, execution = Trigger(row["trigger_type"]), None
        if row["execution_id"] is not None:
            status = ExecutionStatus(row["execution_status"])
            instants = (row[f"execution_{name}"] for name in ("created_at", "scheduled_at", "run_at"))
            execution = ExecutionSummary(row["execution_id"], row["execution_queue"], status, *instants)
        values = {name: row[column] for name, column in _COLUMNS.items()}
        values["endpoint_type"] = EndpointType(row["endpoint_type"])
        values["status"] = JobStatus(row["status"])
        values["labels"] = row["labels"] or {}
        timetable = Timetable.stored(row) if trigger.repeats else None
        return cls(trigger=trigger, timetable=timetable, execution=execution, **values)

    @property
    def first_id(self) -> str:
        return self.first_version_id or self.job_id

    @property
    def planned_at(self) -> datetime | None:
        """Return the planned time of a delayed job: as requested, unless its execution was rescheduled."""
        execution = self.execution
        if self.run_at is None or execution is None:
            return self.run_at
        was_moved = execution.scheduled_at != max(self.run_at, execution.created_at)
        return execution.scheduled_at if was_moved else self.run_at


# Fields with a column of their own.
_RENAMED = {"next_run_at": "cron_next_run_at", "last_tick_at": "cron_last_tick_at"}
_COLUMNS = {
    own.name: _RENAMED.get(own.name, own.name)
    for own in fields(Job)
    if own.name not in {"trigger", "timetable", "execution"}
}
