"""Store of bulk operations; app.features.bulk_jobs.operation_job runs them."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.errors import BulkOperationNotFoundError
from app.kernel.formats import duration_ms, show_duration
from app.queue.bulk.bulk_job import BulkJob, loaded_filter, stored_filter, with_joined_ids
from app.queue.bulk.bulk_job_store import BulkJobStore
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.reading.execution_filter import ExecutionFilter
from schema import tables
from schema.states import CANCELLABLE, BulkAction, ExecutionStatus, JobStatus

WAITING = tuple(status for status in ExecutionStatus if status in CANCELLABLE)
AFFECTS: Mapping[BulkAction, tuple[ExecutionStatus, ...]] = {
    BulkAction.CANCEL: (*WAITING, ExecutionStatus.RUNNING),
    BulkAction.RETRY: (ExecutionStatus.FAILED, ExecutionStatus.CANCELLED),
    BulkAction.RESCHEDULE: WAITING,
    BulkAction.ARCHIVE: (),
    BulkAction.PAUSE: (),
    BulkAction.RESUME: (),
}
"""States of executions that an action applies to."""

OF_LETTERS = frozenset({"letter_id", "group", "failed_after", "failed_before"})
FILTERS_OF_ARCHIVE = OF_LETTERS | {"endpoint", "labels", "error_type"}
"""Filters of `archive`; no other action has the filters in `OF_LETTERS`."""
OF_SCHEDULES = {BulkAction.PAUSE: JobStatus.ACTIVE, BulkAction.RESUME: JobStatus.PAUSED}
"""Actions on repeating jobs, and the state of the jobs that they apply to."""
FILTERS_OF_SCHEDULES = frozenset({"job_id", "endpoint", "queue", "name", "labels", "created_after", "created_before"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkFilter(ExecutionFilter):
    """Filter of a bulk operation as requested; no statuses stand for the default statuses.

    `archive` alone has ids of letters, a group and times of failures: they filter dead letters.
    """

    letter_ids: Collection[str] | None = None
    group: str | None = None
    failed_after: datetime | None = None
    failed_before: datetime | None = None

    @property
    def narrows(self) -> bool:
        """Return whether it filters by more than a state."""
        return any(value not in (None, {}) for name, value in asdict(self).items() if name != "statuses")

    @property
    def given(self) -> dict[str, Any]:
        """Return the given conditions by the names that a request has for them."""
        values = with_joined_ids({name: value for name, value in asdict(self).items() if value is not None})
        statuses, late_ms = values.pop("statuses"), values.pop("late_over_ms", None)
        if statuses:
            values["status"] = ",".join(statuses)
        return values if late_ms is None else values | {"late_over": show_duration(late_ms)}

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "BulkFilter":
        """Return the filter of a stored bulk operation."""
        values = loaded_filter(stored)
        statuses, late_over = values.pop("status", None), values.pop("late_over", None)
        return cls(
            **values,
            statuses=tuple(map(ExecutionStatus, statuses.split(","))) if statuses else (),
            late_over_ms=late_over and duration_ms(late_over),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of an action: `if_running` of a cancellation, target of a rescheduling, `note` of an archiving."""

    if_running: IfRunning | None = None
    run_at: datetime | None = None
    delay_seconds: int | None = None
    spread_seconds: int | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOperation(BulkJob):
    """A bulk operation: action, filter and progress."""

    operation_id: str
    action: BulkAction
    parameters: dict[str, Any]
    changed: int

    @property
    def filter(self) -> BulkFilter:
        return BulkFilter.of(self.wanted)

    @property
    def given(self) -> Parameters:
        """Return the parameters of the action."""
        run_at, if_running = self.parameters.get("run_at"), self.parameters.get("if_running")
        read = {"run_at": run_at and datetime.fromisoformat(run_at), "if_running": if_running and IfRunning(if_running)}
        return Parameters(**self.parameters | read)


BULK_OPERATIONS = BulkJobStore(
    tables.bulk_operations,
    BulkOperation,
    key="operation_id",
    done="changed",
    noun="bulk operation",
    missing=BulkOperationNotFoundError,
)


def begin(
    database: Database,
    action: BulkAction,
    wanted: BulkFilter,
    parameters: Parameters,
    *,
    rate: int,
    actor: str | None,
) -> BulkOperation:
    """Begin a bulk operation of `rate` executions a second."""
    given = {"wanted": stored_filter(wanted.given), "parameters": stored_filter(asdict(parameters))}
    return BULK_OPERATIONS.begin(database, ids.operation_id(), action=action, rate=rate, actor=actor, **given)
