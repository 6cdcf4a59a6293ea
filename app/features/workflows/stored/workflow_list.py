"""Stored workflows: single workflows, lists newest first, and histories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, false, func, select

from app.features.workflows.stored.variables import INPUT
from app.kernel.db import Database
from app.kernel.db.chunked_scan import QUICK, ChunkedRead, ListIndex
from app.kernel.db.paging import Page, PageRequest, Part
from app.kernel.db.rows import RowValue
from app.kernel.errors import WorkflowNotFoundError
from app.kernel.sql import statement
from app.kernel.unreadable import readable
from schema import tables
from schema.states import OnFailure, WorkflowReason, WorkflowStatus

_W = tables.workflows.c

HISTORY = statement(
    "workflows.history",
    """
    SELECT occurred_at AS at, from_status AS before, to_status AS after, actor, reason FROM workflow_events
     WHERE workflow_id = :workflow_id ORDER BY occurred_at, event_id
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredWorkflow(RowValue):
    """A stored workflow without its input; the counts are of nodes, `running` is of executions."""

    workflow_id: str
    name: str
    labels: dict[str, str] | None
    status: WorkflowStatus
    reason: WorkflowReason | None
    on_failure: OnFailure
    max_parallel: int | None
    deadline_at: datetime | None
    idempotency_key: str | None
    nodes: int
    open_nodes: int
    running: int
    succeeded: int
    failed: int
    cancelled: int
    skipped: int
    actor: str | None
    endpoint: str | None
    endpoint_version: int | None
    execution_id: str | None
    parent_id: str | None
    parent_node: int | None
    parent_item: int | None
    depth: int
    created_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class RecordedChange(RowValue):
    """Change of the status of a workflow; `before` is None for its creation."""

    at: datetime
    before: WorkflowStatus | None
    after: WorkflowStatus
    actor: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowFilter:
    """Filters of the list of workflows; None applies no filter."""

    status: WorkflowStatus | None = None
    name: str | None = None
    labels: Mapping[str, str] | None = None
    parent_id: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None

    def index(self) -> ListIndex:
        """Return the index with the fewest workflows that do not match."""
        if self.parent_id is not None:
            return ListIndex(_W.created_at, _W.workflow_id, (), {_W.parent_id: self.parent_id})
        if self.name is not None:
            return ListIndex(_W.created_at, _W.workflow_id, (), {_W.name: self.name})
        if self.status is not None:
            return ListIndex(_W.created_at, _W.workflow_id, (), {_W.status: self.status.value})
        return ListIndex(_W.created_at, _W.workflow_id)

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the conditions that the index does not cover."""
        conditions: list[ColumnElement[bool]] = []
        if self.status is not None and (self.name is not None or self.parent_id is not None):
            conditions.append(_W.status == self.status.value)
        if self.name is not None and self.parent_id is not None:
            conditions.append(_W.name == self.name)
        if self.labels:
            conditions.append(func.coalesce(_W.labels.contains(self.labels), false()))
        return conditions


_COLUMNS = [_W[name] for name in StoredWorkflow.__dataclass_fields__]


def page_of_workflows(
    database: Database, wanted: WorkflowFilter, request: PageRequest, read: ChunkedRead = QUICK
) -> Page[StoredWorkflow]:
    """Read a page of workflows, newest first; may be short before the last page if few of very many match."""
    part = Part.between(wanted.created_after, wanted.created_before, request.after)
    conditions, limit = wanted.conditions(), request.limit
    shown, after = read.page(database, wanted.index(), part, columns=_COLUMNS, conditions=conditions, limit=limit)
    return Page(readable(StoredWorkflow.from_row, shown, "workflow {.workflow_id}".format), after)


def get_workflow(database: Database, workflow_id: str) -> StoredWorkflow:
    """Read a workflow; raises WorkflowNotFoundError."""
    rows = database.fetch(select(*_COLUMNS).where(_W.workflow_id == workflow_id))
    if not rows:
        raise WorkflowNotFoundError.of(workflow_id)
    return StoredWorkflow.from_row(rows[0])


def input_of(database: Database, workflow_id: str) -> Any:
    """Read the input of a workflow; None if there is no such workflow."""
    rows = database.fetch(INPUT, {"workflow_id": workflow_id})
    return rows[0].input if rows else None


def history_of_workflow(database: Database, workflow_id: str) -> Sequence[RecordedChange]:
    """Read the changes of a workflow's status, earliest first; raises WorkflowNotFoundError."""
    rows = database.fetch(HISTORY, {"workflow_id": workflow_id})
    if not rows:
        get_workflow(database, workflow_id)
    return [RecordedChange.from_row(row) for row in rows]
