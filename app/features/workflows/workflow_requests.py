"""Creation of a workflow for a request: a body, its idempotency key, and the first steps."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from app.features.workflows.rules.graph import parse
from app.features.workflows.steps import advancing
from app.features.workflows.stored import workflow_creation
from app.features.workflows.stored.sub_workflows import depth_faults
from app.features.workflows.stored.workflow_creation import CreatedWorkflow
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.errors import InvalidWorkflowError, TaskExecutorError, UnavailableError
from app.web.http.conditions import actor
from app.web.http.idempotent_requests import with_header_key
from app.web.http.request_log import trace_of_new_jobs
from app.web.services import services, wake
from schema.states import KeepResponse

ADVANCE_SECONDS = 1.0
MAX_TRIES = 5


def create_workflow(body: Any) -> CreatedWorkflow:
    """Create the workflow of a body and start its first nodes, or find the first workflow with its key.

    A repeated request is recognised whatever its body, even if the body would now be refused.
    """
    database = services().database
    if isinstance(body, dict):
        body = with_header_key(body)
    for _ in range(MAX_TRIES):
        try:
            created = _create(database, body)
        except TaskExecutorError as error:
            first = None if error.status >= 500 else _first(database, body)
            if first is None:
                raise
            return CreatedWorkflow(first, is_new=False)
        except workflow_creation.EndpointsDeletedError:
            continue  # The next check of the body names the endpoint, unless it was created again.
        advance(created.workflow_id)
        return created
    raise UnavailableError("The endpoints of the workflow are changing too often. Retry later.")


def _create(database: Database, body: Any) -> CreatedWorkflow:
    graph = parse(body, partial(keep_response_by_endpoint, database))
    if faults := [*depth_faults(database.fetch, body["nodes"])]:
        raise InvalidWorkflowError.of_faults(*faults)
    trace = trace_of_new_jobs()
    make = partial(
        workflow_creation.create,
        graph=graph,
        workflow_id=ids.workflow_id(),
        actor=actor().name,
        trace=None if trace is None else trace.as_text(is_link=True),
    )
    return database.transact(make)


def advance(workflow_id: str) -> None:
    """Make the next steps of a workflow at once, for up to a second; a scheduler makes the rest."""
    advancing.advance(services().database, workflow_id, until=advancing.for_seconds(ADVANCE_SECONDS), hint=wake)


def keep_response_by_endpoint(database: Database, names: Collection[str]) -> Mapping[str, KeepResponse]:
    """Read the live endpoints with these names, each with its rule for bodies of answers."""
    rows = database.fetch(workflow_creation.ENDPOINTS, {"names": sorted(names)}) if names else ()
    return {row.name: KeepResponse(row.keep_response) for row in rows}


def _first(database: Database, body: Any) -> str | None:
    key = body.get("idempotency_key") if isinstance(body, dict) else None
    rows = database.fetch(workflow_creation.BY_KEY, {"key": key}) if isinstance(key, str) else ()
    return rows[0].workflow_id if rows else None
