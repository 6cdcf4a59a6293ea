"""/callbacks: what an endpoint that is called back gets; and the fields that name such endpoints."""

from typing import Any

from marshmallow import Schema, fields

from app.features.callbacks.outcome import OUTCOME_SCHEMA
from app.web.http.request_fields import Body, Name
from app.web.openapi.resource import Resource
from schema.states import CallbackEvent

resource = Resource("callbacks", "Other endpoints that are told how executions end.")


def _names() -> dict[str, fields.Field[Any]]:
    return {event.value: Name(allow_none=True) for event in CallbackEvent}


CallbacksSchema = Schema.from_dict(_names(), name="CallbacksSchema")
NewCallbacksSchema = Body.from_dict(_names(), name="NewCallbacksSchema")


def callbacks_field(*, metadata: dict[str, Any]) -> fields.Nested:
    """Return the field of a request that names endpoints by event."""
    return fields.Nested(NewCallbacksSchema, allow_none=True, metadata=metadata)


class OutcomeSchemaSchema(Schema):
    """A JSON Schema (draft 2020-12)."""

    schema = fields.Dict(required=True, metadata={"example": {"type": "object", "title": "Outcome"}})


@resource.route("GET", "/callbacks/schema", returns=OutcomeSchemaSchema)
def schema() -> dict[str, Any]:
    """Get the JSON Schema of the input with which endpoints are called back; a payload spec can be made of it."""
    return {"schema": OUTCOME_SCHEMA}
