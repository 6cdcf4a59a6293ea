"""Schemas of the history and the explanation of an execution."""

from marshmallow import Schema, fields

from app.web.http.request_fields import Instant
from schema.states import ExecutionStatus


class StepSchema(Schema):
    """One change of state; a request to cancel is one from RUNNING to RUNNING."""

    at = Instant(required=True)
    before = fields.Enum(ExecutionStatus, required=True, allow_none=True, data_key="from")
    after = fields.Enum(ExecutionStatus, required=True, data_key="to")
    attempt = fields.Integer(required=True, metadata={"description": "the latest that had begun; 0 before the first"})
    actor = fields.String(
        required=True, allow_none=True, metadata={"description": "an API key's name, a worker's id or `scheduler`"}
    )
    reason = fields.String(required=True, metadata={"example": "CLAIMED"})
    is_estimated = fields.Boolean(
        required=True, data_key="estimated", metadata={"description": "`at` is not on record, only about right"}
    )


class HistorySchema(Schema):
    """The changes of state, the earliest first."""

    items = fields.List(fields.Nested(StepSchema), required=True)
    is_truncated = fields.Boolean(
        required=True,
        data_key="truncated",
        metadata={
            "description": "true if only the latest 1,000 attempts and 1,000 other changes are told of, and earlier "
            "ones left out"
        },
    )


class ExplanationSchema(Schema):
    """Why an execution is where it is."""

    status = fields.Enum(ExecutionStatus, required=True)
    reason = fields.String(required=True, metadata={"description": "for programs", "example": "WAITING_FOR_RUN_AT"})
    explanation = fields.String(required=True, metadata={"example": "It is due at 2026-03-15T18:00:00.000Z."})
    since = Instant(required=True)
    until = Instant(required=True, allow_none=True, metadata={"description": "when it will change, where known"})
    details = fields.Dict(required=True, metadata={"example": {"attempts": 0, "max_attempts": 3}})
