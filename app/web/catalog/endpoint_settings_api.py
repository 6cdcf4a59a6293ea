"""Live settings of an endpoint: PATCH, pause, resume."""

from typing import Any

from app.catalog.endpoints import live_settings
from app.catalog.endpoints.endpoint_rows import Endpoint
from app.kernel.errors import EndpointNotFoundError, TemplateError
from app.web.catalog.endpoints_api import EndpointSchema, FlowSchema, flow_of, resource, shape
from app.web.http.conditions import change, tagged
from app.web.services import services, wake


@resource.route(
    "PATCH",
    "/endpoints/<name>",
    body=FlowSchema,
    returns=EndpointSchema,
    errors=[EndpointNotFoundError, TemplateError],
)
def patch(body: dict[str, Any], name: str) -> Any:
    """Change the queue, priority, limits or breaker of an endpoint without a new version.

    Limits and breaker apply within a second, also to waiting executions. Queue and priority apply to executions
    created from now on, and the key of limits to jobs created from now on.
    """
    return _answer(live_settings.change_flow(services().database, name, flow_of(body), change()))


@resource.route("POST", "/endpoints/<name>/pause", returns=EndpointSchema, errors=[EndpointNotFoundError])
def pause(name: str) -> Any:
    """Pause an endpoint: within a second its executions stop starting; running attempts continue.

    Its jobs are still accepted, and its executions wait. Pausing a paused endpoint changes nothing.
    """
    return _answer(live_settings.set_pause(services().database, name, change(), paused=True))


@resource.route("POST", "/endpoints/<name>/resume", returns=EndpointSchema, errors=[EndpointNotFoundError])
def resume(name: str) -> Any:
    """Resume an endpoint: its executions start again, including the waiting executions."""
    return _answer(live_settings.set_pause(services().database, name, change(), paused=False))


def _answer(endpoint: Endpoint) -> Any:
    wake(endpoint.queue_in_effect)  # so that workers apply the change at once
    return tagged(shape(endpoint), endpoint.tag)


__all__ = ["resource"]
