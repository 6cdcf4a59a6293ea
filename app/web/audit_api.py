"""/audit."""

from typing import Any

from marshmallow import Schema, fields, validate

from app.kernel import audit
from app.kernel.access.api_keys import Scope
from app.kernel.audit import AuditAction, AuditFilter, ResourceType
from app.kernel.described_fields import answered, described
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Instant, QueryInstant
from app.web.openapi.resource import Resource
from app.web.services import services

_HASH = {
    "description": "SHA-256 of the canonical JSON, for a secret of its ciphertext; `null` if it did not exist",
    "example": "9f86d081884c7d65",
}

resource = Resource("audit", "Changes of the catalog and the API keys, with their actors.", read_scope=Scope.ADMIN)


class AuditEntrySchema(Schema):
    """One change; values are not kept, only their hashes before and after."""

    audit_id = fields.String(**answered(example="aud_4d3c2b1a0f9e"))
    actor_id = fields.String(**answered("id of the API key", null=True, example="5f0c1d2e3b4a6978"))
    actor_name = fields.String(**answered("name of the API key, or cli:USER", example="deploy-bot"))
    action = fields.Enum(AuditAction, by_value=True, **answered(example=AuditAction.REPLACE.value))
    resource_type = fields.Enum(ResourceType, by_value=True, **answered(example=ResourceType.CONFIG.value))
    resource = fields.String(
        **answered("name of the resource, id of an API key, or role and pattern of a grant", example="email-service")
    )
    before_hash = fields.String(required=True, allow_none=True, metadata=_HASH)
    after_hash = fields.String(required=True, allow_none=True, metadata=_HASH)
    request_id = fields.String(required=True, allow_none=True)
    occurred_at = Instant(required=True)


class AuditQuery(PageQuery):
    actor = fields.String(validate=validate.Length(1, 200), **described("name or id of an API key, or cli:USER"))
    action = fields.Enum(AuditAction, by_value=True)
    resource_type = fields.Enum(ResourceType, by_value=True)
    resource = fields.String(validate=validate.Length(1, 200))
    after = QueryInstant(**described("this time or later"))
    before = QueryInstant(**described("earlier than this time"))


@resource.route("GET", "/audit", query=AuditQuery, returns=page_schema(AuditEntrySchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List changes, newest first."""
    wanted = page_request(query)
    return page_answer(audit.page(services().database, AuditFilter(**query), wanted), query)
