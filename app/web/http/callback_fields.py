"""Callback fields of jobs and endpoints: the endpoint to call back for each event."""

from typing import Any

from marshmallow import Schema, fields

from app.web.http.request_fields import Body, Name
from schema.states import CallbackEvent


def _names() -> dict[str, fields.Field[Any]]:
    return {event.value: Name(allow_none=True) for event in CallbackEvent}


CallbacksSchema = Schema.from_dict(_names(), name="CallbacksSchema")
NewCallbacksSchema = Body.from_dict(_names(), name="NewCallbacksSchema")


def callbacks_field(*, metadata: dict[str, Any]) -> fields.Nested:
    """Return the field of a request that maps events to endpoints."""
    return fields.Nested(NewCallbacksSchema, allow_none=True, metadata=metadata)
