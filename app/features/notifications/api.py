"""/notifications: what endpoints that notify people get; and trying one out."""

from typing import Any

from marshmallow import Schema, fields

from app.features.notifications.message import MESSAGE_SCHEMA
from app.features.notifications.trial import trial_of
from app.kernel.access.api_keys import Scope
from app.kernel.errors import EndpointNotFoundError, InputValidationError
from app.web.http import preferences, request_traces
from app.web.http.idempotency_keys import PARAMETER, key_in_header
from app.web.jobs import creating
from app.web.jobs.answer_schemas import CreatedJobSchema
from app.web.openapi.resource import Resource

resource = Resource("notifications", "What people are told, through endpoints.", write_scope=Scope.JOBS_WRITE)


class MessageSchemaSchema(Schema):
    """A JSON Schema (draft 2020-12)."""

    schema = fields.Dict(required=True, metadata={"example": {"type": "object", "title": "Message"}})


@resource.route("GET", "/notifications/schema", returns=MessageSchemaSchema)
def schema() -> dict[str, Any]:
    """Get the JSON Schema of the input with which endpoints notify people; a payload spec can be made of it."""
    return {"schema": MESSAGE_SCHEMA}


@resource.route(
    "POST",
    "/endpoints/<name>/test",
    returns=CreatedJobSchema,
    status=201,
    also=(200, 202),
    own_key=PARAMETER,
    header=preferences.PARAMETER,
    errors=[EndpointNotFoundError, InputValidationError],
)
def test(name: str) -> tuple[Any, int, dict[str, str]]:
    """Send a message through an endpoint that says that it is a test: a job like any other, with that message as input.

    Answered as `POST /jobs` is, with `Prefer: wait=10` once the message was sent or refused. An endpoint whose
    payload spec refuses messages is answered with 422.
    """
    created = creating.earlier()
    if created is None:
        trace = request_traces.trace_of_new_jobs()
        created = creating.create(trial_of(name, key_in_header(), trace), trace)
    return creating.answer(created)
