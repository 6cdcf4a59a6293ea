"""Schemas of an execution's history and explanation."""

from marshmallow import Schema, fields

from app.web.http.request_fields import Instant
from schema.states import ExecutionStatus


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
    """State changes, earliest first."""

    items = fields.List(fields.Nested(StepSchema), required=True)
    is_truncated = fields.Boolean(
        required=True,
        data_key="truncated",
        metadata={
            "description": "true if earlier changes are left out: only the latest 1,000 attempts and the latest 1,000 "
            "other changes are listed"
        },
    )


class ExplanationSchema(Schema):
    """Explanation of an execution's state."""

    status = fields.Enum(ExecutionStatus, required=True)
    reason = fields.String(required=True, metadata={"description": "reason code", "example": "WAITING_FOR_RUN_AT"})
    explanation = fields.String(required=True, metadata={"example": "It is due at 2026-03-15T18:00:00.000Z."})
    since = Instant(required=True)
    until = Instant(required=True, allow_none=True, metadata={"description": "time of the next change, if known"})
    details = fields.Dict(required=True, metadata={"example": {"attempts": 0, "max_attempts": 3}})
