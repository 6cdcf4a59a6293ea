"""/…/{name}/uses."""

from functools import partial

from marshmallow import Schema, fields

from app.catalog import uses
from app.catalog.named_table import CONFIGS, PAYLOAD_SPECS, SECRETS
from app.catalog.uses import MAX_COUNTED, MAX_EXAMPLES, UseKind, Uses
from app.kernel.described_fields import answered
from app.kernel.errors import (
    ConfigNotFoundError,
    EndpointNotFoundError,
    PayloadSpecNotFoundError,
    SecretNotFoundError,
)
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("uses", "Uses of endpoints, payload specs, configs and secrets, before a change.")

_KIND = {
    "description": "`endpoint`: its current version names the value; `callback`: an endpoint that calls back; "
    "`workflow_definition`: an endpoint of type WORKFLOW with such a node; `channel`: a notification rule that sends "
    "through the endpoint; `rule`: a notification rule whose pattern matches it; `schedule`: an unretired repeating "
    "job; `workflow_node`: a node that may still start",
    "example": UseKind.SCHEDULE.value,
}
_TITLE = {
    "description": "name of the job or of the node, pattern of the rule, or endpoint version of the execution",
    "example": "nightly-report",
}


class UseExampleSchema(Schema):
    id = fields.String(**answered("name or id; of a `workflow_node` the id of its workflow", example="job_c72f90ab"))
    title = fields.String(required=True, allow_none=True, metadata=_TITLE)


class UseSchema(Schema):
    kind = fields.Enum(UseKind, by_value=True, required=True, metadata=_KIND)
    count = fields.Integer(**answered(f"up to {MAX_COUNTED:,} are counted", example=12))
    is_complete = fields.Boolean(**answered("false if there may be more than `count`"))
    examples = fields.List(fields.Nested(UseExampleSchema), **answered(f"up to {MAX_EXAMPLES}"))


class UsesSchema(Schema):
    name = fields.String(required=True)
    uses = fields.List(fields.Nested(UseSchema), required=True)


class WaitingSchema(Schema):
    """Waiting executions of an endpoint version: they keep their version."""

    version = fields.Integer(required=True)
    count = fields.Integer(**answered(f"of the first {MAX_COUNTED:,}", example=412))


class EndpointUsesSchema(UsesSchema):
    waiting = fields.List(fields.Nested(WaitingSchema), required=True)


_route = partial(resource.route, "GET")


@_route("/endpoints/<name>/uses", returns=EndpointUsesSchema, errors=[EndpointNotFoundError])
def of_endpoint(name: str) -> Uses:
    """Count the uses of an endpoint."""
    return uses.of_endpoint(services().database, name)


@_route("/payload-specs/<name>/uses", returns=UsesSchema, errors=[PayloadSpecNotFoundError])
def of_payload_spec(name: str) -> Uses:
    """Count the uses of a payload spec: its endpoints, and their unfinished work."""
    return uses.of_value(services().database, PAYLOAD_SPECS, name)


@_route("/configs/<name>/uses", returns=UsesSchema, errors=[ConfigNotFoundError])
def of_config(name: str) -> Uses:
    """Count the uses of a config: its endpoints, and their unfinished work."""
    return uses.of_value(services().database, CONFIGS, name)


@_route("/secrets/<name>/uses", returns=UsesSchema, errors=[SecretNotFoundError])
def of_secret(name: str) -> Uses:
    """Count the uses of a secret: its endpoints, and their unfinished work."""
    return uses.of_value(services().database, SECRETS, name)
