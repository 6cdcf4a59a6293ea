"""Executions of WORKFLOW endpoints for tests."""

from typing import Any

from app.kernel.db import Database
from app.queue.executions.execution_model import Claim
from schema.states import EndpointType
from tests import rows
from tests.claiming import take
from tests.contract.features.workflows import flows


def define(database: Database, name: str, spec: dict[str, Any], **fields: Any) -> None:
    rows.add_endpoint(database, name, type_=EndpointType.WORKFLOW, spec=spec, **fields)


def add(database: Database, endpoint: str, **fields: Any) -> str:
    """Create an execution of a workflow endpoint."""
    fields = {"input_": {"day": 1}} | fields
    return rows.add_executions(database, endpoint=endpoint, type_=EndpointType.WORKFLOW, **fields)[0]


def claim(database: Database) -> Claim:
    (claimed,) = take(database, flows.WORKER, queue="workflow").claims
    return claimed
