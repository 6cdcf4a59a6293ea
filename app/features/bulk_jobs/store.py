"""Store of bulk operations; app.features.bulk_jobs.operation_job runs them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Self

from sqlalchemy import Row

from app.kernel import ids
from app.kernel.db import Database
from app.kernel.db.rows import columns_of
from app.kernel.errors import BulkOperationNotFoundError
from app.kernel.formats import rfc3339
from app.kernel.sql import statement
from app.queue.bulk.bulk_job_store import BulkJob, BulkJobStore
from app.queue.executions.execution_cancellation import IfRunning
from schema import tables
from schema.states import CANCELLABLE, BulkAction, BulkJobStatus, ExecutionStatus

BEGIN = statement(
    "bulk_operations.begin",
    """
    INSERT INTO bulk_operations (operation_id, action, status, wanted, parameters, rate, actor)
    VALUES (:operation_id, :action, 'RUNNING', CAST(:wanted AS JSONB), CAST(:parameters AS JSONB), :rate, :actor)
    ON CONFLICT (operation_id) DO NOTHING
    """,
)

_WAITING = tuple(status for status in ExecutionStatus if status in CANCELLABLE)
AFFECTS: Mapping[BulkAction, tuple[ExecutionStatus, ...]] = {
    BulkAction.CANCEL: (*_WAITING, ExecutionStatus.RUNNING),
    BulkAction.RETRY: (ExecutionStatus.FAILED, ExecutionStatus.CANCELLED),
    BulkAction.RESCHEDULE: _WAITING,
    BulkAction.ARCHIVE: (),
}
"""States of executions that an action applies to."""

OF_LETTERS = frozenset({"error_type", "failed_after", "failed_before"})
FILTERS_OF_ARCHIVE = OF_LETTERS | {"endpoint", "labels"}
"""Filters of `archive`; the ones in `OF_LETTERS` belong to it alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkFilter:
    """Filter of a bulk operation as requested; None applies no filter."""

    status: ExecutionStatus | None = None
    endpoint: str | None = None
    queue: str | None = None
    limit_key: str | None = None
    job_id: str | None = None
    name: str | None = None
    labels: dict[str, str] | None = None
    idempotency_key_prefix: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    scheduled_after: datetime | None = None
    scheduled_before: datetime | None = None
    error_type: str | None = None
    failed_after: datetime | None = None
    failed_before: datetime | None = None

    @property
    def narrows(self) -> bool:
        """Return whether it filters by more than a state."""
        return any(value for name, value in asdict(self).items() if name != "status")


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

    @classmethod
    def from_row(cls, row: Row[Any]) -> Self:
        states = {"status": BulkJobStatus(row.status), "action": BulkAction(row.action)}
        return cls(**columns_of(cls, row) | states)


BULK_OPERATIONS = BulkJobStore(
    tables.bulk_operations,
    BulkOperation,
    key="operation_id",
    done="changed",
    noun="bulk operation",
    missing=BulkOperationNotFoundError.of,
)


def statuses_of(action: BulkAction, wanted: BulkFilter, parameters: Parameters) -> tuple[ExecutionStatus, ...]:
    """Return the states of the wanted executions.

    Running executions only if they are to be cancelled, cancelled ones never, unless the filter names that state.
    """
    if wanted.status is not None:
        return (wanted.status,)
    if action is BulkAction.RETRY:
        return (ExecutionStatus.FAILED,)
    if action is BulkAction.CANCEL and parameters.if_running is not None:
        return AFFECTS[action]
    return _WAITING


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
    operation_id = ids.operation_id()
    params = {
        "operation_id": operation_id,
        "action": action.value,
        "wanted": json.dumps(_stored(asdict(wanted))),
        "parameters": json.dumps(_stored(asdict(parameters))),
        "rate": rate,
        "actor": actor,
    }
    database.fetch(BEGIN, params)
    return BULK_OPERATIONS.get(database, operation_id)


def wanted_of(stored: Mapping[str, Any]) -> BulkFilter:
    given: dict[str, Any] = {
        name: datetime.fromisoformat(value) if name.endswith(("_after", "_before")) else value
        for name, value in stored.items()
    }
    if "status" in given:
        given["status"] = ExecutionStatus(given["status"])
    return BulkFilter(**given)


def parameters_of(stored: Mapping[str, Any]) -> Parameters:
    given = dict(stored)
    if "if_running" in given:
        given["if_running"] = IfRunning(given["if_running"])
    if "run_at" in given:
        given["run_at"] = datetime.fromisoformat(given["run_at"])
    return Parameters(**given)


def _stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are given, ready for JSON."""
    return {
        name: rfc3339(value) if isinstance(value, datetime) else value
        for name, value in values.items()
        if value is not None
    }
