"""Schemas of bulk operations."""

from datetime import timedelta
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from app.catalog.endpoints.live_settings_fields import queue_field
from app.features.bulk_jobs.store import (
    AFFECTS,
    FILTERS_OF_ARCHIVE,
    FILTERS_OF_SCHEDULES,
    OF_LETTERS,
    OF_SCHEDULES,
    BulkFilter,
    Parameters,
)
from app.features.dead_letters.api import MAX_NOTE, group_field, letter_ids_field
from app.kernel.described_fields import answered, described
from app.queue.bulk.bulk_job_kind import MAX_COUNTED
from app.queue.executions.execution_cancellation import IfRunning
from app.web.executions.execution_schemas import ExecutionSchema
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
from app.web.http.bulk_job_schemas import all_field, check_all, rate_field, waits_field
from app.web.http.request_fields import Body, Instant
from app.web.jobs.labels import labels_field
from schema.states import BulkAction, BulkJobStatus, ExecutionStatus, JobStatus

_NOTE = "The customer was deleted."
LONGEST_SECONDS = int(timedelta(days=366).total_seconds())
_UNFILTERED = {
    "unfiltered": "`wanted` filters by state only",
    "meant": "all such executions, all open dead letters, or all repeating jobs,",
}
_ONLY_FOR = {
    "if_running": BulkAction.CANCEL,
    **dict.fromkeys(("run_at", "delay_seconds", "spread_seconds"), BulkAction.RESCHEDULE),
    "note": BulkAction.ARCHIVE,
}


class WantedExecutionsSchema(Body):
    """Filter of executions created before the operation began.

    For `archive`: filter of open dead letters by `letter_id`, `group`, `endpoint`, `labels`, `error_type`,
    `failed_after`, `failed_before`.
    For `pause` and `resume`: filter of CRON and INTERVAL jobs by `job_id`, `endpoint`, `queue`, `name`, `labels`,
    `created_after`, `created_before`.
    """

    statuses = Statuses(
        ". `retry`: FAILED (default) and CANCELLED; other actions: waiting states, for `cancel` also RUNNING. Default: "
        "all waiting states, with `if_running` also RUNNING",
        allow_none=True,
    )
    execution_ids = EXECUTION_IDS
    endpoint = fields.String(validate=validate.Length(1, 128), **described(example="send-welcome-email"))
    queue = queue_field(**described(example="bulk"))
    limit_key = LIMIT_KEY
    job_id = fields.String(validate=validate.Length(1, 128))
    worker_id = WORKER
    name = NAME
    labels = labels_field()
    idempotency_key = KEY
    idempotency_key_prefix = KEY_PREFIX
    error_type = ERROR_TYPE
    uncertain = UNCERTAIN
    late_over_ms = LATE_OVER
    created_after = Instant()
    created_before = Instant()
    scheduled_after = Instant()
    scheduled_before = Instant()
    group = group_field()
    letter_ids = letter_ids_field()
    failed_after = Instant(**described("only for `archive`"))
    failed_before = Instant(**described("only for `archive`"))


class NewBulkOperationSchema(Body):
    """Action, filter and rate of a bulk operation."""

    action = fields.Enum(BulkAction, by_value=True, required=True, **described(example="cancel"))
    wanted = fields.Nested(WantedExecutionsSchema, required=True)
    all = all_field(**_UNFILTERED)
    if_running = fields.Enum(
        IfRunning,
        by_value=True,
        allow_none=True,
        **described("`cancel`: as for `POST /executions/{execution_id}/cancel`", example="request"),
    )
    run_at = Instant(allow_none=True, **described("`reschedule`: new due time; a time in the past means now"))
    delay_seconds = fields.Integer(
        strict=True,
        allow_none=True,
        validate=validate.Range(-LONGEST_SECONDS, LONGEST_SECONDS),
        **described("`reschedule`: delay after the planned time; negative: earlier", example=3600),
    )
    spread_seconds = fields.Integer(
        strict=True,
        allow_none=True,
        validate=validate.Range(1, LONGEST_SECONDS),
        **described(
            "`reschedule`: spread evenly over this time, starting at `run_at`, at the delayed time, or now", example=600
        ),
    )
    note = fields.String(
        allow_none=True,
        validate=validate.Length(1, MAX_NOTE),
        **described("required for `archive`: the reason", example=_NOTE),
    )
    rate = rate_field(100)

    @validates_schema(skip_on_field_errors=True)
    def check_action(self, data: dict[str, Any], **_: Any) -> None:
        """Check that the fields fit each other."""
        action, wanted = data["action"], wanted_of(data)
        for name, owner in _ONLY_FOR.items():
            if data.get(name) is not None and action is not owner:
                raise ValidationError(f"Only with the action `{owner}`.", name)
        _check_filters(action, wanted)
        if not set(wanted.statuses) <= set(AFFECTS[action]):
            one_of = ", ".join(AFFECTS[action])
            raise ValidationError({"wanted": {"status": [f"Must be one of: {one_of}, for `{action}`."]}})
        if ExecutionStatus.RUNNING in wanted.statuses and data.get("if_running") is None:
            raise ValidationError("Required for RUNNING executions: `request` or `abort`.", "if_running")
        if action is BulkAction.RESCHEDULE:
            _check_move(data)
        if action is BulkAction.ARCHIVE and data.get("note") is None:
            raise ValidationError("Required for `archive`: the reason.", "note")
        check_all(data["all"], narrows=wanted.narrows, **_UNFILTERED)


class BulkOperationSchema(Schema):
    """A bulk operation and its progress."""

    operation_id = fields.String(required=True)
    action = fields.Enum(BulkAction, by_value=True, **answered(example="cancel"))
    status = fields.Enum(BulkJobStatus, required=True)
    waits_for_turn = waits_field()
    wanted = fields.Dict(**answered(example={"endpoint": "send-welcome-email"}))
    if_running = fields.Enum(IfRunning, by_value=True, **answered(null=True, example="request"))
    run_at = Instant(required=True, allow_none=True)
    delay_seconds = fields.Integer(required=True, allow_none=True)
    spread_seconds = fields.Integer(required=True, allow_none=True)
    note = fields.String(**answered(null=True, example=_NOTE))
    rate = fields.Integer(required=True)
    actor = fields.String(required=True, allow_none=True)
    changed = fields.Integer(
        **answered("changed executions, including running ones that were asked to end, dead letters or jobs")
    )
    refused = fields.Integer(**answered("executions left unchanged because their state did not allow it"))
    last_refusal = fields.String(**answered("reason of the last refusal", null=True))
    reached_at = Instant(
        **answered("creation of the last execution processed, or failure of the last dead letter", null=True)
    )
    created_at = Instant(required=True)
    ended_at = Instant(required=True, allow_none=True)


class SampledJobSchema(Schema):
    """A repeating job, without its input."""

    job_id = fields.String(required=True)
    name = fields.String(**answered(null=True, example="Daily report"))
    endpoint = fields.String(required=True)
    status = fields.Enum(JobStatus, required=True)
    next_run_at = Instant(required=True, allow_none=True)


class BulkPreviewSchema(Schema):
    """Preview of a bulk operation."""

    count = fields.Integer(**answered(example=412))
    is_complete = fields.Boolean(**answered(f"`false` if more than {MAX_COUNTED:,} rows would have to be read"))
    sample = fields.List(fields.Nested(ExecutionSchema), **answered("the first executions, without their input"))
    jobs = fields.List(fields.Nested(SampledJobSchema), **answered("`pause` and `resume`: the first jobs"))


def wanted_of(body: dict[str, Any]) -> BulkFilter:
    """Return the filter of a body."""
    return BulkFilter(**{name: value for name, value in body["wanted"].items() if value is not None})


def parameters(body: dict[str, Any]) -> Parameters:
    """Return the parameters of the action."""
    return Parameters(**{name: body.get(name) for name in _ONLY_FOR})


def _check_filters(action: BulkAction, wanted: BulkFilter) -> None:
    given = set(wanted.given)
    if action is BulkAction.ARCHIVE or action in OF_SCHEDULES:
        allowed = FILTERS_OF_ARCHIVE if action is BulkAction.ARCHIVE else FILTERS_OF_SCHEDULES
        told = {name: [f"Not with the action `{action}`."] for name in given - allowed}
    else:
        told = {name: ["Only with the action `archive`."] for name in given & OF_LETTERS}
    if told:
        raise ValidationError({"wanted": told})


def _check_move(data: dict[str, Any]) -> None:
    given = [name for name in ("run_at", "delay_seconds", "spread_seconds") if data.get(name) is not None]
    if not given:
        raise ValidationError(
            "Required for `reschedule`, unless `delay_seconds` or `spread_seconds` is given.", "run_at"
        )
    if given[:2] == ["run_at", "delay_seconds"]:
        raise ValidationError("Not together with `run_at`.", "delay_seconds")
