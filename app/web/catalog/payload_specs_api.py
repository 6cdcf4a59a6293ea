"""/payload-specs."""

from typing import Any

from marshmallow import Schema, fields

from app.catalog.named_table import PAYLOAD_SPECS, Named
from app.kernel.errors import ConflictError, InvalidSchemaError, PayloadSpecNotFoundError
from app.web.http.conditions import change, tagged, unless_known
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Body, Instant, Name
from app.web.openapi.resource import Resource, same_name
from app.web.services import services

resource = Resource("payload-specs", "JSON Schemas that the input of jobs must match.", is_tagged=True)

_SCHEMA = {"description": "JSON Schema 2020-12", "type": "object"}


class PayloadSpecSchema(Schema):
    """A payload spec."""

    name = Name(required=True)
    schema = fields.Raw(required=True, metadata=_SCHEMA)
    created_at = Instant(required=True)
    updated_at = Instant(required=True)


class NewPayloadSpecSchema(Body):
    """A payload spec to create; any JSON passes as `schema`, so that its faults are reported as INVALID_SCHEMA."""

    name = Name(required=True)
    schema = fields.Raw(required=True, allow_none=True, metadata=_SCHEMA)


class ChangedPayloadSpecSchema(Body):
    """New schema of a payload spec; `name`, if given, must be the name in the path."""

    name = Name()
    schema = fields.Raw(required=True, allow_none=True, metadata=_SCHEMA)


@resource.route(
    "POST",
    "/payload-specs",
    body=NewPayloadSpecSchema,
    returns=PayloadSpecSchema,
    status=201,
    errors=[ConflictError, InvalidSchemaError],
)
def create(body: dict[str, Any]) -> Any:
    """Create a payload spec."""
    row = PAYLOAD_SPECS.create(services().database, body["name"], body["schema"], change())
    return tagged(_shape(row), row.tag, 201)


@resource.route("GET", "/payload-specs", query=PageQuery, returns=page_schema(PayloadSpecSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List payload specs, newest first."""
    page = PAYLOAD_SPECS.page(services().database, page_request(query))
    return page_answer(page, _shape, query)


@resource.route("GET", "/payload-specs/<name>", returns=PayloadSpecSchema, errors=[PayloadSpecNotFoundError])
def get(name: str) -> Any:
    """Get a payload spec."""
    row = PAYLOAD_SPECS.get(services().database, name)
    return unless_known(_shape(row), row.tag)


@resource.route(
    "PUT",
    "/payload-specs/<name>",
    body=ChangedPayloadSpecSchema,
    returns=PayloadSpecSchema,
    errors=[PayloadSpecNotFoundError, InvalidSchemaError],
)
def replace(body: dict[str, Any], name: str) -> Any:
    """Replace the schema of a payload spec, for jobs created from now on."""
    same_name(body, name)
    row = PAYLOAD_SPECS.replace(services().database, name, body["schema"], change())
    return tagged(_shape(row), row.tag)


@resource.route(
    "DELETE", "/payload-specs/<name>", returns=None, status=204, errors=[PayloadSpecNotFoundError, ConflictError]
)
def delete(name: str) -> None:
    """Delete a payload spec; refused while an endpoint or an unfinished job uses it."""
    PAYLOAD_SPECS.delete(services().database, name, change())


def _shape(row: Named) -> dict[str, Any]:
    return {"name": row.name, "schema": row.value, "created_at": row.created_at, "updated_at": row.updated_at}
