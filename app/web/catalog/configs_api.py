"""/configs."""

from typing import Any

from marshmallow import Schema, fields

from app.catalog.named_table import CONFIGS, Named
from app.kernel.errors import ConfigNotFoundError, ConflictError
from app.web.http.conditions import change, tagged, unless_known
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Body, Instant, Name
from app.web.openapi.resource import Resource, same_name
from app.web.services import services

resource = Resource("configs", "Static values that endpoints refer to as {{config.*}}.", is_tagged=True)


class ConfigSchema(Schema):
    """A config."""

    name = Name(required=True)
    values = fields.Dict(required=True)
    created_at = Instant(required=True)
    updated_at = Instant(required=True)


class NewConfigSchema(Body):
    """A config to create."""

    name = Name(required=True)
    values = fields.Dict(required=True)


class ChangedConfigSchema(Body):
    """New values of a config; `name`, if given, must be the name in the path."""

    name = Name()
    values = fields.Dict(required=True)


@resource.route("POST", "/configs", body=NewConfigSchema, returns=ConfigSchema, status=201, errors=[ConflictError])
def create(body: dict[str, Any]) -> Any:
    """Create a config."""
    row = CONFIGS.create(services().database, body["name"], body["values"], change())
    return tagged(_shape(row), row.tag, 201)


@resource.route("GET", "/configs", query=PageQuery, returns=page_schema(ConfigSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List configs, newest first."""
    page = CONFIGS.page(services().database, page_request(query))
    return page_answer(page, _shape, query)


@resource.route("GET", "/configs/<name>", returns=ConfigSchema, errors=[ConfigNotFoundError])
def get(name: str) -> Any:
    """Get a config."""
    row = CONFIGS.get(services().database, name)
    return unless_known(_shape(row), row.tag)


@resource.route("PUT", "/configs/<name>", body=ChangedConfigSchema, returns=ConfigSchema, errors=[ConfigNotFoundError])
def replace(body: dict[str, Any], name: str) -> Any:
    """Replace the values of a config, for executions that have not begun.

    An execution that has begun keeps the values of its first attempt; a manual retry uses the new values.
    """
    same_name(body, name)
    row = CONFIGS.replace(services().database, name, body["values"], change())
    return tagged(_shape(row), row.tag)


@resource.route("DELETE", "/configs/<name>", returns=None, status=204, errors=[ConfigNotFoundError, ConflictError])
def delete(name: str) -> None:
    """Delete a config; refused while an endpoint or an unfinished job uses it."""
    CONFIGS.delete(services().database, name, change())


def _shape(row: Named) -> dict[str, Any]:
    return {"name": row.name, "values": row.value, "created_at": row.created_at, "updated_at": row.updated_at}
