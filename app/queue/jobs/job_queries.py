"""Queries of jobs."""

import itertools
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Connection, Row, Select, Text, and_, cast, func, or_, select, tuple_

from app.kernel.db import Database
from app.kernel.db.paging import Page, PageRequest, page_of
from app.kernel.errors import JobNotFoundError
from app.kernel.sql import statement
from app.kernel.unreadable import readable
from app.queue.jobs.job_model import Job
from schema import tables

PAGE_BYTES = 4 * 1024 * 1024  # inputs, up to 1 MB each

_J, _E = tables.jobs.c, tables.executions.c
SIZE = func.coalesce(func.octet_length(cast(_J.input, Text)), cast(0, BigInteger)).label("size")

# A one-shot job's execution has the job's key; executions of a repeating job have keys derived from their ticks.
_WITH_EXECUTION = tables.jobs.outerjoin(
    tables.executions, and_(_E.job_id == _J.job_id, _E.idempotency_key == _J.idempotency_key)
)

# Without the join, whose outer side cannot be locked.
LOCK = statement("jobs.lock", "SELECT job_id, now() AS now FROM jobs WHERE job_id = :job_id FOR UPDATE")


def get_job(database: Database, job_id: str) -> Job:
    """Read a job; raises JobNotFoundError."""
    for job in find_jobs(database, [job_id]):
        return job
    raise JobNotFoundError.of(job_id)


def lock_job(connection: Connection, job_id: str) -> tuple[Job, datetime]:
    """Lock a job's row, and return the job and the database's clock; raises JobNotFoundError."""
    row = connection.execute(LOCK, {"job_id": job_id}).first()
    if row is None:
        raise JobNotFoundError.of(job_id)
    return _job(connection.execute(_select().where(_J.job_id == job_id)).one()), row.now


def find_jobs(database: Database, job_ids: Collection[str], keys: Collection[tuple[str, str]] = ()) -> list[Job]:
    """Read the jobs with one of these ids, or created with one of these pairs of endpoint and key."""
    wanted = []
    if job_ids:
        wanted.append(_J.job_id.in_(job_ids))
    if keys:
        wanted.append(tuple_(_J.endpoint, _J.idempotency_key).in_(keys))
    found = database.fetch(_select().where(or_(*wanted))) if wanted else ()
    return readable(_job, found, "job {.job_id}".format)


def versions_of(database: Database, job: Job, request: PageRequest) -> Page[Job]:
    """Read a page of a job's versions, newest first; the page is short if the inputs are large."""
    query = _select().where(or_(_J.job_id == job.first_id, _J.first_version_id == job.first_id))
    if request.after is not None:
        query = query.where(_J.version < int(request.after.key))
    query = query.order_by(_J.version.desc())
    sizes = query.with_only_columns(SIZE, maintain_column_froms=True).limit(request.limit)
    fewer = request._replace(limit=fitting(row.size for row in database.fetch(sizes)))
    return page_of(database.fetch(query.limit(fewer.limit + 1)), "created_at", "version", fewer, _job)


def fitting(sizes: Iterable[int]) -> int:
    """Return how many inputs of these sizes fit into PAGE_BYTES; at least 1."""
    return max(1, sum(total <= PAGE_BYTES for total in itertools.accumulate(sizes)))


def _select() -> Select[Any]:
    execution = [
        _E.execution_id,
        _E.queue.label("execution_queue"),
        _E.status.label("execution_status"),
        _E.created_at.label("execution_created_at"),
        _E.scheduled_at.label("execution_scheduled_at"),
        _E.run_at.label("execution_run_at"),
    ]
    return select(*tables.jobs.c, *execution).select_from(_WITH_EXECUTION)


def _job(row: Row[Any]) -> Job:
    return Job.from_columns(row._asdict())
