"""/callbacks: the input of endpoints that are called back."""

from typing import Any

from marshmallow import Schema, fields

from app.catalog.callback_outcome import OUTCOME_SCHEMA
from app.web.openapi.resource import Resource

resource = Resource("callbacks", "Other endpoints that are told how executions end.")


class OutcomeSchemaSchema(Schema):
    """A JSON Schema (draft 2020-12)."""

    schema = fields.Dict(required=True, metadata={"example": {"type": "object", "title": "Outcome"}})


@resource.route("GET", "/callbacks/schema", returns=OutcomeSchemaSchema)
def schema() -> dict[str, Any]:
    """Get the JSON Schema of the input with which endpoints are called back; a payload spec can be made of it."""
    return {"schema": OUTCOME_SCHEMA}
