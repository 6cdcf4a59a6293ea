"""Endpoints of a server that accepts connections and never answers."""

import socket
from typing import Any

from sqlalchemy import text

from app.kernel.db import Database
from schema.states import EndpointType
from tests import rows

TYPES = sorted(set(EndpointType) - {EndpointType.WORKFLOW, EndpointType.ACTOR})
"""Types that deliver to a server."""


def spec_of(type_: EndpointType, silent: socket.socket) -> dict[str, Any]:
    """Return the spec of an endpoint of the silent server."""
    address = f"127.0.0.1:{silent.getsockname()[1]}"
    return {
        EndpointType.HTTP: {"url": f"http://{address}/", "method": "POST"},
        EndpointType.REDIS_STREAM: {"redis_url": f"redis://{address}", "stream": "s", "fields_template": {"a": "1"}},
        EndpointType.NOTIFICATION: {"url": f"json://{address}/", "title": "t", "body": "b"},
        EndpointType.KAFKA: {"bootstrap_servers": address, "topic": "t", "value_template": 1, "acks": "1"},
    }[type_] | {"timeout_ms": 250_000}


def add_execution(
    database: Database,
    type_: EndpointType,
    silent: socket.socket,
    *,
    fields: dict[str, Any] | None = None,
    **options: Any,
) -> str:
    """Create an execution of the endpoint `silent`; `fields` are added to the endpoint's spec."""
    if not database.fetch(text("SELECT 1 FROM endpoints WHERE name = 'silent'")):
        rows.add_endpoint(database, "silent", type_=type_, spec=spec_of(type_, silent) | (fields or {}))
    (execution_id,) = rows.add_executions(database, endpoint="silent", type_=type_, max_attempts=3, **options)
    return execution_id
