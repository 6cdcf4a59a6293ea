"""Start of a workflow by an execution: the workflow is stored and takes the attempt over, in one transaction.

So an attempt has one workflow, whichever process dies: before the commit nothing is stored and the attempt belongs to
its worker; after the commit the worker has lost it.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, Row

from app.features.workflows import definitions
from app.features.workflows.rules.workflow_bounds import MAX_DEPTH
from app.features.workflows.steps import advancing, continuation
from app.features.workflows.stored import workflow_creation
from app.features.workflows.stored.workflow_creation import EndpointsDeletedError, WorkflowOrigin
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.errors import TaskExecutorError, UnavailableError
from app.kernel.function_types import Hint, WrittenEvents
from app.kernel.sql import statement
from app.queue.executions.execution_model import DeliveryError, NotSentError
from app.queue.executions.handover import hand_over, holder
from app.queue.executions.node_key import NodeKey

ADVANCE_SECONDS = 1.0

DEPTH = statement("workflows.depth", "SELECT depth FROM workflows WHERE workflow_id = :workflow_id")


class WorkflowStarter:
    """Starter of workflows in a worker process."""

    def __init__(self, database: Database, hint: Hint, submit: WrittenEvents) -> None:
        """`submit` takes the completion events of workflows that end at their start, to handle them at once."""
        self._database = database
        self._hint = hint
        self._submit = submit

    def __call__(self, execution_id: str, attempt: int, spec: Mapping[str, Any]) -> None:
        """Start the workflow of an attempt, and make its first steps.

        Raises DeliveryError if the definition cannot start, and NotSentError if the worker lost the attempt.
        """
        try:
            workflow_id = start(self._database, execution_id, attempt, spec)
        except EndpointsDeletedError:
            raise NotSentError("an endpoint was deleted at the start of its workflow") from None
        except UnavailableError:
            raise
        except TaskExecutorError as error:
            raise DeliveryError(error.code, error.message, permanent=True) from None
        until = advancing.for_seconds(ADVANCE_SECONDS)
        self._submit(advancing.advance(self._database, workflow_id, until=until, hint=self._hint))


def start(database: Database, execution_id: str, attempt: int, spec: Mapping[str, Any]) -> str:
    """Store the workflow of an attempt, or find the workflow that it continues, which takes it over; returns its id."""
    return database.transact(partial(_start, execution_id, attempt, spec, ids.workflow_id()))


def _start(execution_id: str, attempt: int, spec: Mapping[str, Any], new_id: str, connection: Connection) -> str:
    # The execution and a node of its last workflow may have been redriven together.
    opened = None if attempt == 1 else continuation.lock_open(connection, execution_id, attempt - 1)
    workflow_id = opened or new_id
    row = hand_over(connection, execution_id, attempt, workflow_id)
    if row is None:
        # An earlier run of this transaction may have been committed, without an answer.
        first = holder(connection, execution_id, attempt)
        if first is None:
            raise NotSentError("its claim is no longer held")
        return first
    if opened is None:
        _store(connection, row, attempt, spec, workflow_id)
    else:
        continuation.continue_as(connection, workflow_id, execution_id, attempt)
    return workflow_id


def _store(connection: Connection, row: Row[Any], attempt: int, spec: Mapping[str, Any], workflow_id: str) -> None:
    parent = NodeKey.parse(row.idempotency_key)
    origin = WorkflowOrigin(
        execution_id=row.execution_id,
        attempt=attempt,
        endpoint=row.endpoint,
        endpoint_version=row.endpoint_version,
        parent_id=parent and parent.workflow_id,
        parent_node=parent and parent.node,
        parent_item=parent and parent.item,
        depth=_depth(connection, parent),
    )
    find = definitions.live_endpoints(connection)
    graph = definitions.graph_of(row.endpoint, spec, find, given=row.input, labels=row.labels or {})
    workflow_creation.create(
        connection,
        replace(graph, idempotency_key=continuation.key_of_attempt(row.execution_id, attempt)),
        workflow_id,
        actor=None,
        trace=row.trace_context or row.trace_of_job,
        origin=origin,
    )


def _depth(connection: Connection, parent: NodeKey | None) -> int:
    if parent is None:
        return 1
    depth = 1 + (connection.execute(DEPTH, {"workflow_id": parent.workflow_id}).scalar() or 0)
    if depth > MAX_DEPTH:
        message = f"Its workflow would be the {depth}th inside of each other; {MAX_DEPTH} are allowed."
        raise DeliveryError("WORKFLOW_TOO_DEEP", message, permanent=True)
    return depth
