"""/endpoints."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields

from app.catalog.endpoints import live_settings, versions
from app.catalog.endpoints.endpoint_rows import Endpoint, EndpointDefinition
from app.catalog.endpoints.live_settings_fields import (
    BREAKER,
    DEFAULT_PRIORITY,
    LIMITS,
    OFF,
    FullMatch,
    priority_field,
    queue_field,
    retention_field,
)
from app.catalog.retry_policy import RETRY_POLICY, RetryPolicy
from app.catalog.specs import TARGETS, TRANSPORTS
from app.kernel.audit.change import AuditedChange
from app.kernel.described_fields import answered, described
from app.kernel.errors import (
    ConflictError,
    EndpointNotFoundError,
    InvalidCallbackError,
    InvalidConfigRefError,
    InvalidPayloadSpecRefError,
    TemplateError,
)
from app.web.http.conditions import change, tagged, unless_known
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Body, CallbacksSchema, Instant, Name, callbacks_field
from app.web.openapi.any_of import AnyOf, CheckedObject
from app.web.openapi.resource import Resource, same_name
from app.web.services import services, wake
from schema.inline_bounds import INLINE_PREFIX
from schema.job_bounds import NAME_PATTERN
from schema.states import EndpointType, KeepResponse

resource = Resource("endpoints", f"Registered delivery targets: {TARGETS}.", is_tagged=True)

_SPECS = [transport.spec for transport in TRANSPORTS.values()]
_REFUSALS = [InvalidPayloadSpecRefError, InvalidConfigRefError, TemplateError, InvalidCallbackError]


class _PolicyInEffect(AnyOf):
    def _serialize(self, value: Any, attr: str | None, obj: Any, **kwargs: Any) -> Any:  # noqa: ARG002
        return RetryPolicy.in_effect(value, obj.name).as_json()


_PAUSED_BY = "name of the API key, or cli:USER, in the answer of `GET /endpoints/{name}`, until the audit log drops it"


class EndpointSchema(Schema):
    name = Name(required=True)
    type = fields.Enum(EndpointType, required=True)
    payload_spec = Name(required=True, allow_none=True)
    config = Name(required=True, allow_none=True)
    spec = AnyOf(*_SPECS, **answered("as given"))
    retry_policy = _PolicyInEffect(RETRY_POLICY, **answered("with defaults filled in"))
    keep_response = fields.Enum(KeepResponse, by_value=True, required=True)
    callbacks = fields.Nested(CallbacksSchema, required=True, allow_none=True)
    queue = fields.String(**answered("as given", null=True))
    queue_in_effect = fields.String(
        **answered("its own queue, else the queue of its route, else the queue of its transport", example="http")
    )
    priority = fields.Integer(required=True)
    limits = AnyOf(LIMITS, **answered("as given", null=True))
    breaker = CheckedObject(BREAKER, OFF, **answered("as given", null=True))
    result_retention = retention_field(**answered("`null`: as long as its executions", null=True, example="7d"))
    paused_at = Instant(**answered("time of the pause", null=True))
    paused_by = fields.String(**answered(_PAUSED_BY, null=True, example="ops"))
    version = fields.Integer(required=True)
    created_at = Instant(required=True)
    updated_at = Instant(required=True)


class RouteSchema(Body):
    """A route: a pattern of endpoint names, and their queue."""

    pattern = fields.String(
        required=True,
        validate=FullMatch(
            NAME_PATTERN, error="Must be 1 to 128 lower-case letters, digits, hyphens, underscores, * and ?."
        ),
        **described("`*` matches any number of characters, `?` one character", example="billing-*"),
    )
    queue = queue_field(required=True, **described(example="bulk"))


class FlowSchema(Body):
    """Live settings of an endpoint: when its executions start. Absent fields are kept; `null` removes a setting."""

    queue = queue_field(
        allow_none=True,
        **described(
            "queue of its executions from now on; when absent, the queue of its route or transport", example="bulk"
        ),
    )
    priority = priority_field(
        allow_none=True,
        **described(
            f"priority of executions from now on, 0 to 255, higher first; default {DEFAULT_PRIORITY}",
            example=DEFAULT_PRIORITY,
        ),
    )
    limits = CheckedObject(LIMITS, allow_none=True, **described("limits over all workers; none when absent"))
    breaker = CheckedObject(
        BREAKER, OFF, allow_none=True, **described("the default breaker when absent, none when `off`")
    )
    result_retention = retention_field(
        allow_none=True,
        **described(
            "how long after its end an execution created from now on keeps the receiver's answer, "
            "`1m` to `365d`; as long as executions are kept when absent",
            example="7d",
        ),
    )


def _check_unreserved(name: str) -> None:
    if name.startswith(INLINE_PREFIX):
        raise ValidationError(f"Must not begin with {INLINE_PREFIX!r}, which is reserved for jobs with `url`.")


class ChangedEndpointSchema(FlowSchema):
    """Definition of an endpoint; absent fields are reset, except the fields of PATCH, which are kept.

    `name`, if given, must be the name in the path.
    """

    name = Name()
    type = fields.Enum(EndpointType, required=True)
    payload_spec = fields.String(allow_none=True)
    config = fields.String(allow_none=True)
    spec = AnyOf(*_SPECS, required=True, **described("spec of the given type"))
    retry_policy = AnyOf(RETRY_POLICY, allow_none=True)
    keep_response = fields.Enum(
        KeepResponse,
        by_value=True,
        load_default=KeepResponse.ALWAYS,
        **described(
            "when the receiver's answer is stored: `always`, `on_error` (failed attempts only) or "
            "`never`; otherwise only its status and size are"
        ),
    )
    callbacks = callbacks_field(**described("endpoints to call when its executions end; none when absent"))


class NewEndpointSchema(ChangedEndpointSchema):
    name = Name(required=True, validate=_check_unreserved)


class EndpointQuery(PageQuery):
    inline = fields.Boolean(
        load_default=False, **described("list the endpoints of jobs with `url`, instead of the others")
    )


@resource.route(
    "POST", "/endpoints", body=NewEndpointSchema, returns=EndpointSchema, status=201, errors=[ConflictError, *_REFUSALS]
)
def create(body: dict[str, Any]) -> Any:
    """Register an endpoint."""
    endpoint = create_in(body, change())
    return tagged(endpoint, endpoint.tag, 201)


def create_in(body: Mapping[str, Any], by: AuditedChange) -> Endpoint:
    return versions.create(services().database, body["name"], definition_of(body), by, **_settings(body))


@resource.route("GET", "/endpoints", query=EndpointQuery, returns=page_schema(EndpointSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List endpoints, newest first."""
    page = versions.page(services().database, page_request(query), inline=query["inline"])
    return page_answer(page, query)


@resource.route("GET", "/endpoints/<name>", returns=EndpointSchema, errors=[EndpointNotFoundError])
def get(name: str) -> Any:
    """Get an endpoint."""
    endpoint = versions.get(services().database, name)
    return unless_known(endpoint, endpoint.tag)


@resource.route(
    "PUT",
    "/endpoints/<name>",
    body=ChangedEndpointSchema,
    returns=EndpointSchema,
    errors=[EndpointNotFoundError, ConflictError, *_REFUSALS],
)
def replace(body: dict[str, Any], name: str) -> Any:
    """Replace an endpoint by a new version, for jobs created from now on."""
    same_name(body, name)
    return _changed(replace_in(name, body, change()))


def replace_in(name: str, body: Mapping[str, Any], by: AuditedChange) -> Endpoint:
    return versions.replace(services().database, name, definition_of(body), by, **_settings(body))


def check_in(name: str, body: Mapping[str, Any]) -> None:
    """Raise the errors of `replace_in` about a body; the caller undoes its locks."""
    settings = _settings(body)
    del settings["flow"]
    versions.check(services().database, name, definition_of(body), **settings)


@resource.route("DELETE", "/endpoints/<name>", returns=None, status=204, errors=[EndpointNotFoundError, ConflictError])
def delete(name: str) -> None:
    """Delete an endpoint; refused while it has an unretired repeating job or an unfinished execution."""
    versions.delete(services().database, name, change())


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
    return _changed(live_settings.change_flow(services().database, name, flow_of(body), change()))


@resource.route("POST", "/endpoints/<name>/pause", returns=EndpointSchema, errors=[EndpointNotFoundError])
def pause(name: str) -> Any:
    """Pause an endpoint: within a second its executions stop starting; running attempts continue.

    Its jobs are still accepted, and its executions wait. Pausing a paused endpoint changes nothing.
    """
    return _changed(live_settings.set_pause(services().database, name, change(), paused=True))


@resource.route("POST", "/endpoints/<name>/resume", returns=EndpointSchema, errors=[EndpointNotFoundError])
def resume(name: str) -> Any:
    """Resume an endpoint: its executions start again, including the waiting executions."""
    return _changed(live_settings.set_pause(services().database, name, change(), paused=False))


def _changed(endpoint: Endpoint) -> Any:
    wake(endpoint.queue_in_effect)  # so that workers apply the change at once
    return tagged(endpoint, endpoint.tag)


def flow_of(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in ("queue", "priority", "limits", "breaker", "result_retention") if name in body}


def definition_of(body: Mapping[str, Any]) -> EndpointDefinition:
    given: Any = {each.name: body.get(each.name) for each in dataclasses.fields(EndpointDefinition)}
    return EndpointDefinition(**given)


def _settings(body: Mapping[str, Any]) -> dict[str, Any]:
    stuck_timeout_ms = round(services().settings.stuck_timeout_seconds * 1000)
    return {"stuck_timeout_ms": stuck_timeout_ms, "flow": flow_of(body), "spec_checks": services().spec_checks}
