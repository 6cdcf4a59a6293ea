"""Schemas of results and errors of executions, and the duration of a wait."""

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields

from app.catalog.specs import TRANSPORTS
from app.catalog.specs.actor import ErrorCategory
from app.catalog.specs.transport import Outcome
from app.kernel.described_fields import answered, described
from app.kernel.formats import duration_ms
from app.web.http.request_fields import Body, Instant, Name
from app.web.openapi.any_of import AnyOf
from schema.states import ExecutionStatus

MAX_WAIT_SECONDS = 60


class AttemptErrorSchema(Outcome):
    type = fields.String(required=True, **described(example="TIMEOUT"))
    message = fields.String(required=True)
    status_code = fields.Integer(**described("of HTTP_ERROR and ANSWER_REFUSED"))
    body = fields.String(**described("with `status_code`: the first 16 KiB of the answer"))
    body_bytes = fields.Integer(**described("with `status_code`, if the body is not kept: its size"))
    category = fields.String(
        **described(
            "of an actor: " + ", ".join(f"`{each}`" for each in ErrorCategory), example=ErrorCategory.FATAL.value
        )
    )
    traceback = fields.String(**described("of an actor: the last 16 KiB"))
    causes = fields.List(fields.String(), **described("of an actor: types and messages, nearest first"))
    retryable = fields.Boolean(**described("true if this kind of error is retried"))
    rejected = fields.Boolean(**described("true if `reject_on` matches: an expected failure"))
    may_have_been_delivered = fields.Boolean(**described("true if the message was sent and no answer came"))


class IgnoredErrorSchema(Outcome):
    """Failure that `ignore_on` turns into a success, with the answer if there was one."""

    status_code = fields.Integer()
    body = fields.String(**described("the first 16 KiB of the answer, unless it is not kept"))
    body_bytes = fields.Integer(**described("if the body is not kept: its size"))
    ignored_error = fields.Nested(AttemptErrorSchema, required=True)


OUTPUTS = (*(transport.output for transport in TRANSPORTS.values()), IgnoredErrorSchema())
ERROR = AttemptErrorSchema()


class WaitField(fields.Field[float]):
    """Duration of a wait, loaded as seconds."""

    def __init__(self, **kwargs: Any) -> None:
        shape = {"type": "string", "pattern": "^[0-9]{1,12}(ms|s|m)$", "example": "30s"}
        super().__init__(metadata=shape | kwargs.pop("metadata", {}), **kwargs)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> float:  # noqa: ARG002
        milliseconds = duration_ms(value)
        if milliseconds is None or milliseconds > MAX_WAIT_SECONDS * 1000:
            raise ValidationError(
                f"Must be a duration of up to {MAX_WAIT_SECONDS}s: a whole number and ms, s or m, such as 30s."
            )
        return milliseconds / 1000


class ResultQuery(Body):
    wait = WaitField(
        **described(f"wait for the end of the execution, up to `{MAX_WAIT_SECONDS}s`; no wait when absent")
    )


class ResultSchema(Schema):
    """Result of an execution; `output` and `error` are `null` until it has ended."""

    execution_id = fields.String(required=True)
    job_id = fields.String(required=True)
    endpoint = Name(required=True)
    status = fields.Enum(ExecutionStatus, required=True)
    attempt_count = fields.Integer(required=True)
    completed_at = Instant(**answered("`null` until it has ended", null=True))
    duration_ms = fields.Integer(required=True, allow_none=True)
    kept_until = Instant(**answered("`null`: as long as the execution, or not ended yet", null=True))
    output = AnyOf(*OUTPUTS, **answered("the receiver's answer", null=True))
    error = AnyOf(ERROR, **answered("error of the last attempt, with the whole answer", null=True))
