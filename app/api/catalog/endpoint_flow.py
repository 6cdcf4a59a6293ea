"""Flow of an endpoint: PATCH, pause, resume."""

from typing import Any

from app.api.catalog.endpoints import EndpointSchema, FlowSchema, flow_of, resource, shape
from app.api.http.conditions import change, tagged
from app.api.services import services, wake
from app.catalog.endpoints import flow
from app.catalog.endpoints.rows import Endpoint
from app.errors import EndpointNotFoundError, TemplateError


@resource.route(
    "PATCH",
    "/endpoints/<name>",
    body=FlowSchema,
    returns=EndpointSchema,
    errors=[EndpointNotFoundError, TemplateError],
)
def patch(body: dict[str, Any], name: str) -> Any:
    """Change the queue, priority, limits or breaker of an endpoint, in the same version.

    Limits and the breaker count within a second, also for what waits already. A queue and a priority are those of the
    executions that are created from now on. A key of limits is that of jobs created from now on.
    """
    return _answer(flow.change_flow(services().database, name, flow_of(body), change()))


@resource.route("POST", "/endpoints/<name>/pause", returns=EndpointSchema, errors=[EndpointNotFoundError])
def pause(name: str) -> Any:
    """Let nothing of an endpoint start, from a second later at most until it is resumed; what runs goes on.

    Its jobs are accepted meanwhile, and its executions wait. Pausing it again changes nothing.
    """
    return _answer(flow.pause(services().database, name, change()))


@resource.route("POST", "/endpoints/<name>/resume", returns=EndpointSchema, errors=[EndpointNotFoundError])
def resume(name: str) -> Any:
    """Let executions of an endpoint start again, those that wait included."""
    return _answer(flow.resume(services().database, name, change()))


__all__ = ["resource"]


def _answer(endpoint: Endpoint) -> Any:
    # Whoever looks for work learns of the change.
    wake(endpoint.queue_in_effect)
    return tagged(shape(endpoint), endpoint.tag)
