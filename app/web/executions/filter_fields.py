"""Fields of the filter of executions that lists and bulk operations share."""

from collections.abc import Mapping
from typing import Any

from marshmallow import ValidationError, fields, validate

from app.kernel.described_fields import described
from app.web.http.ids_field import ChosenIds
from app.web.http.request_fields import Delay
from schema.job_bounds import MAX_IDEMPOTENCY_KEY
from schema.states import ExecutionStatus

_STATES = [status.value for status in ExecutionStatus]


class Statuses(fields.Field[tuple[ExecutionStatus, ...]]):
    """One state of executions, or several separated by commas."""

    def __init__(self, description: str, **kwargs: Any) -> None:
        one: dict[str, Any] = {"type": "string", "enum": _STATES}
        if kwargs.get("allow_none"):
            one = {"type": ["string", "null"], "enum": [*_STATES, None]}
        several = {"type": "string", "pattern": "^[A-Z]+(,[A-Z]+)+$"}
        metadata = {"anyOf": [one, several], "description": f"one, or several separated by commas{description}"}
        super().__init__(data_key="status", metadata=metadata | {"example": "FAILED,RETRYING"}, **kwargs)

    def _deserialize(
        self,
        value: Any,
        attr: str | None,  # noqa: ARG002
        data: Mapping[str, Any] | None,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[ExecutionStatus, ...]:
        try:
            return tuple(dict.fromkeys(map(ExecutionStatus, str(value).split(","))))
        except ValueError:
            raise ValidationError(f"Must be one of: {', '.join(_STATES)}; or several, separated by commas.") from None


EXECUTION_IDS = ChosenIds("execution_id", "these executions")
LIMIT_KEY = fields.String(validate=validate.Length(1, 256), **described("key of `limits.per_key`", example="acme"))
NAME = fields.String(validate=validate.Length(1, 200), **described("of their jobs", example="Daily report"))
KEY = fields.String(
    validate=validate.Length(1, MAX_IDEMPOTENCY_KEY),
    **described("idempotency key of their jobs", example="order-1234-7"),
)
KEY_PREFIX = fields.String(
    validate=validate.Length(1, MAX_IDEMPOTENCY_KEY),
    **described("prefix of the idempotency keys of their jobs", example="order-1234-"),
)
ERROR_TYPE = fields.String(
    validate=validate.Length(1, 128),
    **described("of the latest attempt that has ended; for `archive` that of the dead letter", example="HTTP_ERROR"),
)
WORKER = fields.String(
    validate=validate.Length(1, 128),
    **described(
        "the worker process of the current or latest attempt; with `status=RUNNING`, the executions "
        "that the process holds"
    ),
)
UNCERTAIN = fields.Boolean(
    **described("`true`: an attempt may have been delivered although it failed; `false`: none", example=True)
)
LATE_OVER = Delay(
    data_key="late_over",
    **described(
        "began later than this after the due time of its latest attempt, or has waited for longer since",
        type="string",
        pattern="^[0-9]{1,12}(ms|s|m|h|d)$",
        example="5s",
    ),
)
