"""Reading jobs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, select

from app.db import Database
from app.errors import JobNotFoundError
from app.jobs.model import ExecutionSummary, Job
from app.paging import Page, PageRequest, newest_first, page_of
from schema import tables
from schema.states import EndpointType, ExecutionStatus, JobStatus, Trigger

_J, _E = tables.jobs.c, tables.executions.c

# A one-shot job's execution bears the job's own key, the ticks of a CRON job bear keys made from their times.
_WITH_EXECUTION = tables.jobs.outerjoin(
    tables.executions, and_(_E.job_id == _J.job_id, _E.idempotency_key == _J.idempotency_key)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs to list; None lets all through."""

    status: JobStatus | None = None
    trigger: Trigger | None = None
    endpoint: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """Say it in SQL."""
        conditions = []
        for column, value in ((_J.status, self.status), (_J.trigger_type, self.trigger), (_J.endpoint, self.endpoint)):
            if value is not None:
                conditions.append(column == value)
        if self.created_after is not None:
            conditions.append(_J.created_at > self.created_after)
        if self.created_before is not None:
            conditions.append(_J.created_at < self.created_before)
        return conditions


def get(database: Database, job_id: str) -> Job:
    """Read a job; raises JobNotFoundError."""
    job = find(database, job_id)
    if job is None:
        raise JobNotFoundError(f"Job with ID {job_id!r} does not exist.")
    return job


def find(database: Database, job_id: str) -> Job | None:
    """Read a job, if there is one."""
    return _first(database, _select().where(_J.job_id == job_id))


def find_by_key(database: Database, endpoint: str, idempotency_key: str) -> Job | None:
    """Read the job that was created with a key, if there is one."""
    return _first(database, _select().where(_J.endpoint == endpoint, _J.idempotency_key == idempotency_key))


def page(database: Database, wanted: JobFilter, request: PageRequest) -> Page[Job]:
    """Read a page of jobs, newest first."""
    query = newest_first(_select().where(*wanted.conditions()), _J.created_at, _J.job_id, request)
    rows = page_of(database.fetch(query), "created_at", "job_id", request)
    return Page([_job(row) for row in rows.items], rows.next)


def _select() -> Select[Any]:
    execution = [
        _E.execution_id,
        _E.status.label("execution_status"),
        _E.created_at.label("execution_created_at"),
    ]
    return select(*tables.jobs.c, *execution).select_from(_WITH_EXECUTION)


def _first(database: Database, query: Select[Any]) -> Job | None:
    rows = database.fetch(query)
    return _job(rows[0]) if rows else None


def _job(row: Row[Any]) -> Job:
    execution = None
    if row.execution_id is not None:
        execution = ExecutionSummary(row.execution_id, ExecutionStatus(row.execution_status), row.execution_created_at)
    return Job(
        job_id=row.job_id,
        endpoint=row.endpoint,
        endpoint_type=EndpointType(row.endpoint_type),
        endpoint_version=row.endpoint_version,
        trigger=Trigger(row.trigger_type),
        status=JobStatus(row.status),
        version=row.version,
        idempotency_key=row.idempotency_key,
        input=row.input,
        run_at=row.run_at,
        cron=row.cron_expression,
        timezone=row.cron_timezone,
        starts_at=row.cron_starts_at,
        ends_at=row.cron_ends_at,
        next_run_at=row.cron_next_run_at,
        created_at=row.created_at,
        retired_at=row.retired_at,
        execution=execution,
    )
