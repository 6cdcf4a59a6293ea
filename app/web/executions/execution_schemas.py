"""Schemas of executions, their attempts, log lines, history and explanation."""

from marshmallow import Schema, fields, validate

from app.catalog.endpoints.live_settings_fields import queue_field
from app.queue.executions.execution_cancellation import IfRunning
from app.web.executions.filter_fields import (
    ERROR_TYPE,
    EXECUTION_IDS,
    KEY,
    KEY_PREFIX,
    LATE_OVER,
    LIMIT_KEY,
    NAME,
    UNCERTAIN,
    WORKER,
    Statuses,
)
from app.web.executions.result_schemas import ERROR, OUTPUTS
from app.web.http.pagination import PageQuery
from app.web.http.request_fields import OF_UNREADABLE, Body, Count, Instant, LimitKey, Name, QueryInstant
from app.web.http.workflow_filter import OF_WORKFLOW
from app.web.jobs.labels import LabelSelector
from app.web.openapi.any_of import AnyOf
from schema.states import AttemptStatus, EndpointType, ExecutionStatus, LogLevel


class NodePlaceSchema(Schema):
    """Place of an execution in a workflow."""

    workflow_id = fields.String(required=True)
    node = fields.Integer(required=True, metadata={"description": "number of the node", "example": 2})
    item = fields.Integer(
        required=True,
        metadata={"description": "number of the item, from 1 on; 0 without items; -1 - n undoes item n"},
    )
    run = fields.Integer(required=True, metadata={"description": "number of the run of the node"})


class ExecutionSchema(Schema):
    """One run of a job: of a one-shot job, or of one tick of a repeating job. Lists leave out `input`."""

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
        metadata={"description": "key by which it shares `limits.per_key` of its endpoint; `null` without a key"},
    )
    status = fields.Enum(ExecutionStatus, required=True)
    input = fields.Dict(metadata={"description": OF_UNREADABLE})
    output = AnyOf(*OUTPUTS, required=True, allow_none=True, metadata={"description": "the receiver's answer"})
    last_error = AnyOf(
        ERROR,
        required=True,
        allow_none=True,
        metadata={"description": "error of the latest attempt that has ended, also if ignored; without `body`"},
    )
    attempt_count = fields.Integer(required=True)
    max_attempts = fields.Integer(required=True)
    worker_id = fields.String(required=True, allow_none=True)
    scheduled_at = Instant(required=True)
    run_at = Instant(
        required=True,
        metadata={
            "description": "latest due time: later than `scheduled_at` after a failed attempt or a late promotion"
        },
    )
    started_at = Instant(required=True, allow_none=True)
    completed_at = Instant(required=True, allow_none=True)
    duration_ms = fields.Integer(required=True, allow_none=True)
    cancel_requested_at = Instant(
        required=True, allow_none=True, metadata={"description": "time of a request to allow no further attempt"}
    )
    abort_requested_at = Instant(
        required=True, allow_none=True, metadata={"description": "time of a request to abort the running attempt"}
    )
    workflow = fields.Nested(
        NodePlaceSchema,
        required=True,
        allow_none=True,
        metadata={"description": "`null` outside of workflows", "example": None},
    )
    created_at = Instant(required=True)


class AttemptSchema(Schema):
    attempt_id = fields.String(required=True)
    execution_id = fields.String(required=True)
    attempt_number = fields.Integer(required=True)
    status = fields.Enum(AttemptStatus, required=True)
    worker_id = fields.String(required=True, allow_none=True)
    due_at = Instant(
        required=True,
        allow_none=True,
        metadata={"description": "instant from which it could start; `null` in rows of earlier releases"},
    )
    started_at = Instant(required=True)
    completed_at = Instant(required=True, allow_none=True)
    duration_ms = fields.Integer(required=True, allow_none=True)
    output = AnyOf(*OUTPUTS, required=True, allow_none=True)
    error = AnyOf(
        ERROR,
        required=True,
        allow_none=True,
        metadata={"description": "for SUCCESS: the error that `ignore_on` ignored"},
    )
    created_at = Instant(required=True)


class LogLineSchema(Schema):
    log_id = fields.String(required=True)
    execution_id = fields.String(required=True)
    attempt_number = fields.Integer(required=True)
    level = fields.Enum(LogLevel, required=True)
    message = fields.String(required=True)
    logged_at = Instant(required=True)


class StepSchema(Schema):
    """One state change; a request to cancel is a change from RUNNING to RUNNING."""

    at = Instant(required=True)
    before = fields.Enum(ExecutionStatus, required=True, allow_none=True, data_key="from")
    after = fields.Enum(ExecutionStatus, required=True, data_key="to")
    attempt = fields.Integer(
        required=True, metadata={"description": "number of the latest attempt that had begun; 0 before the first"}
    )
    actor = fields.String(
        required=True, allow_none=True, metadata={"description": "an API key's name, a worker's id or `scheduler`"}
    )
    reason = fields.String(required=True, metadata={"example": "CLAIMED"})
    is_estimated = fields.Boolean(
        required=True, data_key="estimated", metadata={"description": "`at` was not recorded and is approximate"}
    )


class HistorySchema(Schema):
    items = fields.List(fields.Nested(StepSchema), required=True)
    is_truncated = fields.Boolean(
        required=True,
        data_key="truncated",
        metadata={
            "description": "true if earlier changes are left out: only the latest 1,000 attempts and the latest 1,000 "
            "other changes are listed"
        },
    )


class RequestSchema(Schema):
    """The request of the next attempt, without its secrets."""

    execution_id = fields.String(required=True)
    job_id = fields.String(required=True)
    endpoint = Name(required=True)
    endpoint_type = fields.Enum(EndpointType, required=True, allow_none=True)
    endpoint_version = fields.Integer(required=True, metadata={"description": "of all its attempts"})
    newest_version = fields.Integer(required=True, metadata={"description": "of the endpoint, for new jobs"})
    config = fields.String(required=True, allow_none=True)
    config_revision = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "catalog revision of all its attempts; `null`: no attempt yet, so the present one"},
    )
    idempotency_key = fields.String(required=True, metadata={"description": "which the receiver gets"})
    scheduled_at = Instant(required=True)
    secrets = fields.List(fields.String(), required=True, metadata={"description": "names", "example": ["mail_key"]})
    spec = fields.Dict(
        required=True,
        allow_none=True,
        metadata={
            "description": "rendered spec with `[secret NAME]` for each secret; `null` if it cannot be rendered",
            "example": {"url": "https://mail.example/welcome", "headers": {"Authorization": "[secret mail_key]"}},
        },
    )
    fault = fields.String(required=True, allow_none=True, metadata={"description": "why it cannot be rendered"})


class ExplanationSchema(Schema):
    status = fields.Enum(ExecutionStatus, required=True)
    reason = fields.String(required=True, metadata={"description": "reason code", "example": "WAITING_FOR_RUN_AT"})
    explanation = fields.String(required=True, metadata={"example": "It is due at 2026-03-15T18:00:00.000Z."})
    since = Instant(required=True)
    until = Instant(required=True, allow_none=True, metadata={"description": "time of the next change, if known"})
    details = fields.Dict(required=True, metadata={"example": {"attempts": 0, "max_attempts": 3}})


class ExecutionOfJobQuery(PageQuery):
    statuses = Statuses("")
    endpoint = fields.String(validate=validate.Length(1, 128))
    queue = queue_field(metadata={"example": "bulk"})
    limit_key = LIMIT_KEY
    worker_id = WORKER
    error_type = ERROR_TYPE
    uncertain = UNCERTAIN
    late_over_ms = LATE_OVER
    created_after = QueryInstant()
    created_before = QueryInstant()
    scheduled_after = QueryInstant()
    scheduled_before = QueryInstant()


class ExecutionQuery(ExecutionOfJobQuery):
    execution_ids = EXECUTION_IDS
    job_id = fields.String(validate=validate.Length(1, 128))
    name = NAME
    labels = LabelSelector()
    idempotency_key = KEY
    idempotency_key_prefix = KEY_PREFIX
    workflow = OF_WORKFLOW


class CancelQuery(Body):
    if_running = fields.Enum(
        IfRunning,
        by_value=True,
        metadata={
            "description": "`request` (202): the current attempt is the last; `abort` (202): the current attempt is"
            " also aborted; absent: 409 if an execution is running"
        },
    )


class LogQuery(PageQuery):
    level = fields.Enum(LogLevel)
    attempt_number = Count(validate=validate.Range(min=1))
