"""Schemas of executions, attempts and log lines."""

import dataclasses
from typing import Any

from marshmallow import Schema, fields, validate

from app.catalog.endpoints.live_settings_fields import queue_field
from app.queue.executions.execution_cancellation import IfRunning
from app.queue.executions.execution_model import AttemptRecord, Execution, LogRecord
from app.web.executions.outcome_schemas import ERROR, OUTPUTS
from app.web.http.pagination import PageQuery
from app.web.http.request_fields import OF_UNREADABLE, Body, Count, Instant, LimitKey, Name, QueryInstant
from app.web.openapi.any_of import AnyOf
from schema.states import AttemptStatus, EndpointType, ExecutionStatus, LogLevel


class ExecutionSchema(Schema):
    """One run of a job: its only one, or that of one tick of a repeating job. `input` is left out of lists."""

    execution_id = fields.String(required=True)
    job_id = fields.String(required=True)
    endpoint = Name(required=True)
    endpoint_type = fields.Enum(EndpointType, required=True)
    endpoint_version = fields.Integer(required=True)
    idempotency_key = fields.String(required=True, allow_none=True)
    queue = fields.String(required=True, metadata={"example": "http"})
    priority = fields.Integer(required=True, metadata={"example": 128})
    limit_key = LimitKey(
        required=True,
        allow_none=True,
        metadata={"description": "by which it shares `limits.per_key` of its endpoint; `null` where it has no key"},
    )
    status = fields.Enum(ExecutionStatus, required=True)
    input = fields.Dict(metadata={"description": OF_UNREADABLE})
    output = AnyOf(*OUTPUTS, required=True, allow_none=True, metadata={"description": "what the receiver answered"})
    last_error = AnyOf(
        ERROR,
        required=True,
        allow_none=True,
        metadata={
            "description": "of the latest attempt that has ended, if it failed or was ignored; without its `body`"
        },
    )
    attempt_count = fields.Integer(required=True)
    max_attempts = fields.Integer(required=True)
    worker_id = fields.String(required=True, allow_none=True)
    scheduled_at = Instant(required=True)
    run_at = Instant(
        required=True,
        metadata={"description": "when it is, or was, due: later after a failed attempt, and for what was queued late"},
    )
    started_at = Instant(required=True, allow_none=True)
    completed_at = Instant(required=True, allow_none=True)
    duration_ms = fields.Integer(required=True, allow_none=True)
    cancel_requested_at = Instant(
        required=True, allow_none=True, metadata={"description": "since when no further attempt may follow"}
    )
    abort_requested_at = Instant(
        required=True, allow_none=True, metadata={"description": "since when the attempt under way is to be broken off"}
    )
    created_at = Instant(required=True)


class AttemptSchema(Schema):
    """One try within an execution."""

    attempt_id = fields.String(required=True)
    execution_id = fields.String(required=True)
    attempt_number = fields.Integer(required=True)
    status = fields.Enum(AttemptStatus, required=True)
    worker_id = fields.String(required=True, allow_none=True)
    started_at = Instant(required=True)
    completed_at = Instant(required=True, allow_none=True)
    duration_ms = fields.Integer(required=True, allow_none=True)
    output = AnyOf(*OUTPUTS, required=True, allow_none=True)
    error = AnyOf(
        ERROR, required=True, allow_none=True, metadata={"description": "of a SUCCESS: what `ignore_on` ignores"}
    )
    created_at = Instant(required=True)


class LogLineSchema(Schema):
    """One line of an execution's log."""

    log_id = fields.String(required=True)
    execution_id = fields.String(required=True)
    attempt_number = fields.Integer(required=True)
    level = fields.Enum(LogLevel, required=True)
    message = fields.String(required=True)
    logged_at = Instant(required=True)


class ExecutionOfJobQuery(PageQuery):
    """Filters of a job's executions."""

    status = fields.Enum(ExecutionStatus)
    endpoint = fields.String(validate=validate.Length(1, 128))
    queue = queue_field(metadata={"example": "bulk"})
    created_after = QueryInstant()
    created_before = QueryInstant()


class ExecutionQuery(ExecutionOfJobQuery):
    """Filters of the list of executions."""

    job_id = fields.String(validate=validate.Length(1, 128))


class CancelQuery(Body):
    """What to do about an execution that is running."""

    if_running = fields.Enum(
        IfRunning,
        by_value=True,
        metadata={
            "description": "`request`: no further attempt follows (202); `abort`: and the present one is broken off"
            " (202); without it the answer is 409"
        },
    )


class LogQuery(PageQuery):
    """Filters of an execution's log."""

    level = fields.Enum(LogLevel)
    attempt_number = Count(validate=validate.Range(min=1))


def shape_record(record: Execution | AttemptRecord | LogRecord) -> dict[str, Any]:
    """Return the fields of a record as they are."""
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
