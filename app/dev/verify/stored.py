"""Rows of a run in the database."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import JSON, String, Text, cast, func, or_, select

from app.dev.verify.evidence import AttemptRow, BreakerChange, ExecutionRow
from app.kernel import db
from app.kernel.db import Database
from app.kernel.formats import numbered
from app.queue.reading.attempt_rows import all_attempts
from schema import schema_version
from schema.states import AttemptStatus, BreakerState, ExecutionStatus
from schema.tables import attempts, breaker_endpoints, breaker_events, execution_logs, executions, jobs, workers

_CLOCK_SAMPLES = 20


class OtherWorkError(RuntimeError):
    """The given database is in use for other work."""


def job_ids(database: Database, endpoints: list[str]) -> frozenset[str]:
    rows = database.fetch(select(jobs.c.job_id).where(jobs.c.endpoint.in_(endpoints)))
    return frozenset(row.job_id for row in rows)


def execution_rows(database: Database, endpoints: list[str]) -> tuple[ExecutionRow, ...]:
    query = select(executions).where(executions.c.endpoint.in_(endpoints))
    return tuple(map(ExecutionRow.from_row, database.fetch(query)))


def attempt_rows(database: Database, endpoints: list[str]) -> tuple[AttemptRow, ...]:
    of_attempt = executions.c.execution_id == all_attempts.c.execution_id
    query = select(all_attempts).join(executions, of_attempt).where(executions.c.endpoint.in_(endpoints))
    return tuple(
        AttemptRow(
            row.execution_id,
            row.attempt_number,
            AttemptStatus(row.status),
            row.worker_id,
            error.get("type"),
            bool(error.get("may_have_been_delivered")),
            bool(error.get("retryable", True)),
            row.started_at,
            row.completed_at,
            ExecutionStatus(row.led_to) if row.led_to else None,
        )
        for row in database.fetch(query)
        for error in [row.error or {}]
    )


def breaker_changes(database: Database, since: datetime) -> tuple[BreakerChange, ...]:
    """Read the changes of breakers since an instant, in order."""
    query = (
        select(breaker_events)
        .where(breaker_events.c.occurred_at >= since)
        .order_by(breaker_events.c.occurred_at, breaker_events.c.event_id)
    )
    return tuple(
        BreakerChange(row.target, BreakerState(row.from_state), BreakerState(row.to_state), row.occurred_at)
        for row in database.fetch(query)
    )


def has_opened(database: Database, endpoint: str) -> bool:
    """Return whether a breaker of an endpoint has ever opened."""
    query = (
        select(breaker_events.c.event_id)
        .join(breaker_endpoints, breaker_endpoints.c.target == breaker_events.c.target)
        .where(breaker_endpoints.c.endpoint == endpoint)
    )
    return bool(database.fetch(query.limit(1)))


def breakers(database: Database, endpoints: list[str]) -> dict[str, str]:
    """Map the target of each breaker that only one endpoint uses to that endpoint, for the given endpoints."""
    query = (
        select(breaker_endpoints.c.target, func.min(breaker_endpoints.c.endpoint).label("endpoint"))
        .group_by(breaker_endpoints.c.target)
        .having(func.count() == 1)
    )
    return {row.target: row.endpoint for row in database.fetch(query) if row.endpoint in endpoints}


def progress(database: Database, endpoints: list[str]) -> dict[ExecutionStatus, int]:
    """Count the run's executions by status."""
    query = (
        select(executions.c.status, func.count().label("number"))
        .where(executions.c.endpoint.in_(endpoints))
        .group_by(executions.c.status)
    )
    return {ExecutionStatus(row.status): row.number for row in database.fetch(query)}


def ticks_after(database: Database, job_id: str, instant: datetime) -> int:
    """Count the executions of a job that are scheduled after an instant."""
    query = select(func.count()).where(executions.c.job_id == job_id, executions.c.scheduled_at > instant)
    return int(database.fetch(query)[0][0])


def rows_with(database: Database, words: str) -> Iterator[str]:
    """Yield each table with rows that contain these words, and their number."""
    for table in (jobs, executions, attempts, execution_logs):
        texts = [cast(column, Text) for column in table.c if isinstance(column.type, (String, JSON))]
        found = or_(*(text.contains(words, autoescape=True) for text in texts))
        number = database.fetch(select(func.count()).select_from(table).where(found))[0][0]
        if number:
            yield f"{numbered(number, 'row')} of {table.name}"


def refuse_other_work(url: str) -> None:
    """Raise OtherWorkError if the database at `url` is in use for other work.

    The run's workers would claim that work without the key to its secrets.
    """
    database = db.connect(url, pool_size=1, application_name="te-verify")
    try:
        if database.transact(schema_version.current) is None:
            return
        counts = {kind: database.fetch(query)[0][0] for kind, query in _OTHER_WORK.items()}
    finally:
        database.close()
    found = ", ".join(f"{number} {kind}" for kind, number in counts.items() if number)
    if found:
        raise OtherWorkError(f"this database does other work ({found}); give verify an empty or a dedicated one")


_OTHER_WORK = {
    "live workers": select(func.count())
    .select_from(workers)
    .where(workers.c.status == "ALIVE", workers.c.lease_expires_at > func.now()),
    "unfinished executions": select(func.count()).select_from(executions).where(executions.c.completed_at.is_(None)),
    "repeating jobs": select(func.count()).select_from(jobs).where(jobs.c.cron_next_run_at.is_not(None)),
}


def now(database: Database) -> datetime:
    """Read the database's clock."""
    instant: datetime = database.fetch(select(func.now()))[0][0]
    return instant


def clock_slack(database: Database) -> timedelta:
    """Measure the maximum lag of this machine's clock behind the database's."""
    samples = []
    for _ in range(_CLOCK_SAMPLES):
        before = datetime.now(UTC)
        samples.append(now(database) - before)
    return max(timedelta(0), min(samples))
