"""/notifications/schema and /endpoints/NAME/test: the schema of messages, and test messages."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from marshmallow import Schema, fields

from app.features.notifications.message import MESSAGE_SCHEMA, rejection, sample_message
from app.kernel.access.api_keys import Scope
from app.kernel.described_fields import answered
from app.kernel.errors import (
    Detail,
    EndpointNotFoundError,
    InputValidationError,
)
from app.kernel.tracing.context import TraceContext
from app.queue.jobs.job_model import NewJob, own_key
from app.web.http.idempotent_requests import PARAMETER, key_in_header
from app.web.http.request_log import trace_of_new_jobs
from app.web.jobs.answer_schemas import CreatedJobSchema
from app.web.jobs.creating import PREFER
from app.web.jobs.creating import create as create_job
from app.web.openapi.resource import Resource
from schema.states import Trigger

resource = Resource("notifications", "Messages to people, sent through endpoints.", write_scope=Scope.JOBS_WRITE)


class MessageSchemaSchema(Schema):
    """A JSON Schema (draft 2020-12)."""

    schema = fields.Dict(**answered(example={"type": "object", "title": "Message"}))


@resource.route("GET", "/notifications/schema", returns=MessageSchemaSchema)
def schema() -> dict[str, Any]:
    """Get the JSON Schema of notification messages, for payload specs of channels."""
    return {"schema": MESSAGE_SCHEMA}


@resource.route(
    "POST",
    "/endpoints/<name>/test",
    returns=CreatedJobSchema,
    status=201,
    also=(200, 202),
    own_key=PARAMETER,
    header=PREFER,
    errors=[EndpointNotFoundError, InputValidationError],
)
def test(name: str) -> Any:
    """Send a test message through an endpoint, as an ordinary job.

    The response is that of `POST /jobs`; with `Prefer: wait=10` it comes when the message was sent or rejected. If the
    payload spec of the endpoint rejects messages, the response is 422.
    """
    with channel_faults(name):
        return create_job(trial_job(name, key_in_header(), trace_of_new_jobs()))


def trial_job(endpoint: str, key: str | None = None, trace: TraceContext | None = None) -> NewJob:
    """Return a job that sends a test message; the same key creates one job only."""
    return NewJob(
        endpoint=endpoint,
        trigger=Trigger.IMMEDIATE,
        input=sample_message(endpoint, datetime.now(UTC)),
        idempotency_key=own_key("test", key or secrets.token_hex(16)),
        trace=trace,
    )


@contextmanager
def channel_faults(endpoint: str) -> Iterator[None]:
    """Reword the refusal of a test message, which is in no body that a client could correct."""
    try:
        yield
    except InputValidationError as error:
        faults = [
            rejection(endpoint, each["pointer"].removeprefix("/input"), each["message"]) for each in error.details
        ]
        details = [Detail(pointer="", message=fault) for fault in faults]
        raise InputValidationError(faults[0], details) from error
