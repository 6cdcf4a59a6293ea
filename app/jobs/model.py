"""Jobs as values: what is asked for, and what there is."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schema.states import EndpointType, ExecutionStatus, JobStatus, Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job that a client asks for; times in UTC."""

    endpoint: str
    trigger: Trigger
    input: dict[str, Any]
    idempotency_key: str | None = None
    run_at: datetime | None = None
    cron: str | None = None
    timezone: str | None = None
    starts_at: datetime | None = None
    ends_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ExecutionSummary:
    """The execution of a one-shot job, in short."""

    execution_id: str
    status: ExecutionStatus
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored job; `execution` is that of a one-shot job."""

    job_id: str
    endpoint: str
    endpoint_type: EndpointType
    endpoint_version: int
    trigger: Trigger
    status: JobStatus
    version: int
    idempotency_key: str | None
    input: dict[str, Any]
    run_at: datetime | None
    cron: str | None
    timezone: str | None
    starts_at: datetime | None
    ends_at: datetime | None
    next_run_at: datetime | None
    created_at: datetime
    retired_at: datetime | None
    execution: ExecutionSummary | None
