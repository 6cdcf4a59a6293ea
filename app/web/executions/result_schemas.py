"""Schemas of results, and the duration of a wait."""

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields

from app.kernel.formats import duration_ms
from app.web.executions.outcome_schemas import ERROR, OUTPUTS
from app.web.http.request_fields import Body, Instant, Name
from app.web.openapi.any_of import AnyOf
from schema.states import ExecutionStatus

MAX_WAIT_SECONDS = 60


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
    """Duration of the wait for a result."""

    wait = WaitField(
        metadata={"description": f"wait for the end of the execution, up to `{MAX_WAIT_SECONDS}s`; no wait when absent"}
    )


class ResultSchema(Schema):
    """Result of an execution; `output` and `error` are `null` until it has ended."""

    execution_id = fields.String(required=True)
    job_id = fields.String(required=True)
    endpoint = Name(required=True)
    status = fields.Enum(ExecutionStatus, required=True)
    attempt_count = fields.Integer(required=True)
    completed_at = Instant(required=True, allow_none=True, metadata={"description": "`null` until it has ended"})
    duration_ms = fields.Integer(required=True, allow_none=True)
    kept_until = Instant(
        required=True, allow_none=True, metadata={"description": "`null`: as long as the execution, or not ended yet"}
    )
    output = AnyOf(*OUTPUTS, required=True, allow_none=True, metadata={"description": "the receiver's answer"})
    error = AnyOf(
        ERROR,
        required=True,
        allow_none=True,
        metadata={"description": "error of the last attempt, with the whole answer"},
    )
