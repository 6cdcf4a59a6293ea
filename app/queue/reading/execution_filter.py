"""Filter of executions, for lists and for bulk operations: an operation changes the executions of its list."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    ColumnElement,
    Row,
    Text,
    and_,
    any_,
    case,
    cast,
    exists,
    false,
    func,
    literal,
    literal_column,
    select,
    true,
)

from app.kernel.db import Database
from schema import tables
from schema.states import CANCELLABLE, ExecutionStatus
from schema.tables.executions import IS_UNCERTAIN

_E, _J, _A = tables.executions.c, tables.jobs.c, tables.attempts.c
# Named by its table, because `executions` has a status, too.
IS_UNCERTAIN_ATTEMPT = IS_UNCERTAIN.replace("status", "attempts.status").replace("error", "attempts.error")
_WAITING = [status.value for status in ExecutionStatus if status in CANCELLABLE]

ENDED_ATTEMPT: ColumnElement[int] = _E.attempt_count - case(
    (_E.status == ExecutionStatus.RUNNING, cast(1, BigInteger)), else_=cast(0, BigInteger)
)
"""Number of the latest attempt that has ended: the current attempt of a RUNNING execution has no row yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFilter:
    """Filter of executions; None, or no statuses, applies no filter.

    `name`, `labels` and the idempotency keys belong to the job, `error_type` to the latest attempt that has ended.
    `late_over_ms` finds executions that began later than this after their due time, or wait for longer.
    """

    statuses: Collection[ExecutionStatus] = ()
    execution_ids: Collection[str] | None = None
    endpoint: str | None = None
    job_id: str | None = None
    queue: str | None = None
    limit_key: str | None = None
    worker_id: str | None = None
    name: str | None = None
    labels: Mapping[str, str] | None = None
    idempotency_key: str | None = None
    idempotency_key_prefix: str | None = None
    error_type: str | None = None
    uncertain: bool | None = None
    late_over_ms: int | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    scheduled_after: datetime | None = None
    scheduled_before: datetime | None = None
    ended_before: datetime | None = None

    @property
    def is_indexed(self) -> bool:
        """Return whether an index of the list has all wanted columns."""
        return not self._of_rows() and not self.conditions_of_jobs()

    def matches(self) -> ColumnElement[bool]:
        """Return whether a row of `executions` matches, apart from status, endpoint, creation time and the job."""
        of_job = [] if self.job_id is None else [_E.job_id == self.job_id]
        return and_(true(), *of_job, *self._of_rows()).label("is_wanted")

    def _of_rows(self) -> list[ColumnElement[bool]]:
        # As it is stored: app.web.http.request_fields.LimitKey.
        limit_key = None if self.limit_key is None else f"={self.limit_key}"
        equal = ((_E.queue, self.queue), (_E.limit_key, limit_key), (_E.worker_id, self.worker_id))
        found = [column == value for column, value in equal if value is not None]
        if self.ended_before is not None:
            found.append(_E.completed_at < self.ended_before)
        if self.scheduled_after is not None:
            found.append(_E.scheduled_at > self.scheduled_after)
        if self.scheduled_before is not None:
            found.append(_E.scheduled_at < self.scheduled_before)
        if self.late_over_ms is not None:
            found.append(_is_late(timedelta(milliseconds=self.late_over_ms)))
        if self.error_type is not None:
            found.append(func.coalesce(_error_type() == self.error_type, false()))
        if self.uncertain is not None:
            uncertain = exists().where(_A.execution_id == _E.execution_id, literal_column(IS_UNCERTAIN_ATTEMPT))
            uncertain = uncertain.correlate(tables.executions)
            found.append(uncertain if self.uncertain else ~uncertain)
        return found

    def conditions_of_jobs(self) -> list[ColumnElement[bool]]:
        found: list[ColumnElement[bool]] = []
        if self.name is not None:
            found.append(_J.name == self.name)
        if self.labels:
            # Hidden from the planner, which has to look jobs up by id.
            found.append(func.coalesce(_J.labels.contains(self.labels), false()))
        if self.idempotency_key is not None:
            found.append(_J.idempotency_key == self.idempotency_key)
        if self.idempotency_key_prefix is not None:
            found.append(_J.idempotency_key.startswith(self.idempotency_key_prefix, autoescape=True))
        return found


def _error_type() -> ColumnElement[str]:
    of_latest = _A.execution_id == _E.execution_id, _A.attempt_number == ENDED_ATTEMPT
    return select(_A.error["type"].astext).where(*of_latest).correlate(tables.executions).scalar_subquery()


def _is_late(over: timedelta) -> ColumnElement[bool]:
    waits = _E.status.in_(_WAITING)
    began = case((waits, func.now()), else_=func.coalesce(_E.started_at, _E.completed_at))
    return func.coalesce(began > _E.run_at + literal(over), false())


def matching(database: Database, wanted: ExecutionFilter, rows: Sequence[Row[Any]]) -> list[bool]:
    """Return for each row, with `job_id` and `is_wanted`, whether it matches; reads the jobs of matching rows."""
    conditions = wanted.conditions_of_jobs()
    jobs = {row.job_id for row in rows if row.is_wanted}
    if jobs and conditions:
        jobs = _jobs_in(database, jobs, conditions)
    return [row.is_wanted and row.job_id in jobs for row in rows]


def _jobs_in(database: Database, jobs: Iterable[str], conditions: Iterable[ColumnElement[bool]]) -> set[str]:
    among = _J.job_id == any_(literal(sorted(jobs), ARRAY(Text)))  # a parameter for each would cost more than the read
    return {row.job_id for row in database.fetch(select(_J.job_id).where(among, *conditions))}


def job_of_key(database: Database, endpoint: str, key: str) -> str | None:
    """Return the job with an idempotency key, which is unique in its endpoint."""
    rows = database.fetch(select(_J.job_id).where(_J.endpoint == endpoint, _J.idempotency_key == key))
    return rows[0].job_id if rows else None
