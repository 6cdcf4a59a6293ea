"""Schemas of executions, their attempts, log lines, history and explanation."""

from marshmallow import Schema, fields, validate

from app.catalog.endpoints.live_settings_fields import queue_field
from app.kernel.described_fields import answered, described
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
    node = fields.Integer(**answered("number of the node", example=2))
    item = fields.Integer(**answered("number of the item, from 1 on; 0 without items; -1 - n undoes item n"))
    run = fields.Integer(**answered("number of the run of the node"))


class ExecutionSchema(Schema):
    """One run of a job: of a one-shot job, or of one tick of a repeating job. Lists leave out `input`."""

    execution_id = fields.String(required=True)
    job_id = fields.String(required=True)
    endpoint = Name(required=True)
    endpoint_type = fields.Enum(EndpointType, required=True)
    endpoint_version = fields.Integer(required=True)
    idempotency_key = fields.String(required=True, allow_none=True)
    queue = fields.String(**answered(example="http"))
    priority = fields.Integer(**answered(example=128))
    limit_key = LimitKey(
        **answered("key by which it shares `limits.per_key` of its endpoint; `null` without a key", null=True)
    )
    status = fields.Enum(ExecutionStatus, required=True)
    input = fields.Dict(**described(OF_UNREADABLE))
    output = AnyOf(*OUTPUTS, **answered("the receiver's answer", null=True))
    last_error = AnyOf(
        ERROR, **answered("error of the latest attempt that has ended, also if ignored; without `body`", null=True)
    )
    attempt_count = fields.Integer(required=True)
    max_attempts = fields.Integer(required=True)
    worker_id = fields.String(required=True, allow_none=True)
    scheduled_at = Instant(required=True)
    run_at = Instant(
        **answered("latest due time: later than `scheduled_at` after a failed attempt or a late promotion")
    )
    started_at = Instant(required=True, allow_none=True)
    completed_at = Instant(required=True, allow_none=True)
    duration_ms = fields.Integer(required=True, allow_none=True)
    cancel_requested_at = Instant(**answered("time of a request to allow no further attempt", null=True))
    abort_requested_at = Instant(**answered("time of a request to abort the running attempt", null=True))
    workflow = fields.Nested(NodePlaceSchema, **answered("`null` outside of workflows", null=True, example=None))
    created_at = Instant(required=True)


class AttemptSchema(Schema):
    attempt_id = fields.String(required=True)
    execution_id = fields.String(required=True)
    attempt_number = fields.Integer(required=True)
    status = fields.Enum(AttemptStatus, required=True)
    worker_id = fields.String(required=True, allow_none=True)
    due_at = Instant(**answered("instant from which it could start; `null` in rows of earlier releases", null=True))
    started_at = Instant(required=True)
    completed_at = Instant(required=True, allow_none=True)
    duration_ms = fields.Integer(required=True, allow_none=True)
    output = AnyOf(*OUTPUTS, required=True, allow_none=True)
    error = AnyOf(ERROR, **answered("for SUCCESS: the error that `ignore_on` ignored", null=True))
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
    attempt = fields.Integer(**answered("number of the latest attempt that had begun; 0 before the first"))
    actor = fields.String(**answered("an API key's name, a worker's id or `scheduler`", null=True))
    reason = fields.String(**answered(example="CLAIMED"))
    is_estimated = fields.Boolean(data_key="estimated", **answered("`at` was not recorded and is approximate"))


class HistorySchema(Schema):
    items = fields.List(fields.Nested(StepSchema), required=True)
    is_truncated = fields.Boolean(
        data_key="truncated",
        **answered(
            "true if earlier changes are left out: only the latest 1,000 attempts and the latest 1,000 "
            "other changes are listed"
        ),
    )


class RequestSchema(Schema):
    """The request of the next attempt, without its secrets."""

    execution_id = fields.String(required=True)
    job_id = fields.String(required=True)
    endpoint = Name(required=True)
    endpoint_type = fields.Enum(EndpointType, required=True, allow_none=True)
    endpoint_version = fields.Integer(**answered("of all its attempts"))
    newest_version = fields.Integer(**answered("of the endpoint, for new jobs"))
    config = fields.String(required=True, allow_none=True)
    config_revision = fields.Integer(
        **answered("catalog revision of all its attempts; `null`: no attempt yet, so the present one", null=True)
    )
    idempotency_key = fields.String(**answered("which the receiver gets"))
    scheduled_at = Instant(required=True)
    secrets = fields.List(fields.String(), **answered("names", example=["mail_key"]))
    spec = fields.Dict(
        **answered(
            "rendered spec with `[secret NAME]` for each secret; `null` if it cannot be rendered",
            null=True,
            example={"url": "https://mail.example/welcome", "headers": {"Authorization": "[secret mail_key]"}},
        )
    )
    fault = fields.String(**answered("why it cannot be rendered", null=True))


class ExplanationSchema(Schema):
    status = fields.Enum(ExecutionStatus, required=True)
    reason = fields.String(**answered("reason code", example="WAITING_FOR_RUN_AT"))
    explanation = fields.String(**answered(example="It is due at 2026-03-15T18:00:00.000Z."))
    since = Instant(required=True)
    until = Instant(**answered("time of the next change, if known", null=True))
    details = fields.Dict(**answered(example={"attempts": 0, "max_attempts": 3}))


class ExecutionOfJobQuery(PageQuery):
    statuses = Statuses("")
    endpoint = fields.String(validate=validate.Length(1, 128))
    queue = queue_field(**described(example="bulk"))
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
        **described(
            "`request` (202): the current attempt is the last; `abort` (202): the current attempt is"
            " also aborted; absent: 409 if an execution is running"
        ),
    )


class LogQuery(PageQuery):
    level = fields.Enum(LogLevel)
    attempt_number = Count(validate=validate.Range(min=1))
