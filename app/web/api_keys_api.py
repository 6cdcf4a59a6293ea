"""/api-keys."""

from typing import Any

from marshmallow import Schema, fields

from app.kernel.access import api_keys
from app.kernel.access.api_keys import KeyState, Scope
from app.kernel.described_fields import answered
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Instant
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource(
    "api-keys",
    "API keys, without their values; only the command line creates and revokes keys.",
    read_scope=Scope.ADMIN,
)


class ApiKeySchema(Schema):
    """An API key; its value is shown once, by the command that creates it."""

    key_id = fields.String(required=True)
    name = fields.String(**answered(example="deploy-bot"))
    scopes = fields.List(fields.String(), **answered(example=[Scope.READ.value]))
    state = fields.Enum(KeyState, by_value=True, **answered(example=KeyState.ACTIVE.value))
    created_at = Instant(required=True)
    expires_at = Instant(**answered("`null`: never", null=True))
    last_used_at = Instant(**answered("exact to about a minute; `null`: never used", null=True))


@resource.route("GET", "/api-keys", query=PageQuery, returns=page_schema(ApiKeySchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List API keys, newest first."""
    wanted = page_request(query)
    return page_answer(api_keys.page(services().database, wanted), query)
