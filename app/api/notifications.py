"""/notifications: what endpoints that notify people get."""

from typing import Any

from marshmallow import Schema, fields

from app.api.openapi.resource import Resource
from app.notifications.message import MESSAGE_SCHEMA

resource = Resource("notifications", "What people are told, through endpoints.")


class MessageSchemaSchema(Schema):
    """A JSON Schema (draft 2020-12)."""

    schema = fields.Dict(required=True, metadata={"example": {"type": "object", "title": "Message"}})


@resource.route("GET", "/notifications/schema", returns=MessageSchemaSchema)
def schema() -> dict[str, Any]:
    """Get the JSON Schema of the input with which endpoints notify people; a payload spec can be made of it."""
    return {"schema": MESSAGE_SCHEMA}
