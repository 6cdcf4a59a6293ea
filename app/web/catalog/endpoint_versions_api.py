"""/endpoints/{name}/versions."""

from typing import Any

from marshmallow import Schema, fields

from app.catalog.endpoints import version_history
from app.catalog.endpoints.version_history import EndpointVersion
from app.catalog.retry_policy import RETRY_POLICY
from app.catalog.specs import TRANSPORTS
from app.kernel.described_fields import answered
from app.kernel.errors import EndpointNotFoundError, EndpointVersionNotFoundError
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import CallbacksSchema, Instant, Name
from app.web.openapi.any_of import AnyOf
from app.web.openapi.resource import Resource
from app.web.services import services
from schema.states import EndpointType, KeepResponse

resource = Resource("endpoint-versions", "Versions of endpoints, with their authors.")

_ACTOR = {
    "description": "name of the API key that stored the version, or cli:USER; `null` once its entry of the audit log "
    "was deleted",
    "example": "deploy-bot",
}


class EndpointVersionSchema(Schema):
    """A version of an endpoint. Jobs keep the version that they were created with."""

    version = fields.Integer(required=True)
    name = Name(required=True)
    type = fields.Enum(EndpointType, required=True)
    payload_spec = Name(required=True, allow_none=True)
    config = Name(required=True, allow_none=True)
    secrets = fields.List(fields.String(), **answered("names in its templates", example=["mail_key"]))
    spec = AnyOf(*(transport.spec for transport in TRANSPORTS.values()), **answered("as given"))
    retry_policy = AnyOf(RETRY_POLICY, **answered("as given", null=True))
    keep_response = fields.Enum(KeepResponse, by_value=True, required=True)
    callbacks = fields.Nested(CallbacksSchema, required=True, allow_none=True)
    actor = fields.String(required=True, allow_none=True, metadata=_ACTOR)
    created_at = Instant(required=True)


@resource.route(
    "GET",
    "/endpoints/<name>/versions",
    query=PageQuery,
    returns=page_schema(EndpointVersionSchema),
    errors=[EndpointNotFoundError],
)
def list_(query: dict[str, Any], name: str) -> dict[str, Any]:
    """List the versions of an endpoint, newest first; also of a deleted endpoint."""
    wanted = page_request(query)
    return page_answer(version_history.page_of_versions(services().database, name, wanted), query)


@resource.route(
    "GET",
    "/endpoints/<name>/versions/<version>",
    returns=EndpointVersionSchema,
    errors=[EndpointNotFoundError, EndpointVersionNotFoundError],
)
def get(name: str, version: str) -> EndpointVersion:
    """Get a version of an endpoint."""
    return version_history.get_version(services().database, name, version)
