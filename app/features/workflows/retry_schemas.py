"""Schemas of retries of workflows."""

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate, validates_schema

from app.features.workflows.rules.workflow_bounds import MAX_NODES
from app.kernel.described_fields import answered, described
from app.web.http.request_fields import Body, SecretName
from schema.states import WorkflowStatus

_NODE = "notify"


class RetryWorkflowSchema(Body):
    """Nodes that run again: `from_nodes`, or all nodes that `failed`."""

    from_nodes = fields.List(
        SecretName(metadata={"example": _NODE}),
        validate=validate.Length(1, MAX_NODES),
        **described("names of the first nodes that run again", example=[_NODE]),
    )
    failed = fields.Boolean(truthy={True}, falsy={False}, **described("all failed and cancelled nodes", example=True))
    dry_run = fields.Boolean(truthy={True}, falsy={False}, **described("answers, and changes nothing", example=True))

    @validates_schema
    def check_single(self, data: Mapping[str, Any], **_: Any) -> None:
        if bool(data.get("from_nodes")) is bool(data.get("failed")):
            raise ValidationError("Must have either `from_nodes` or `failed: true`.")


class WorkflowRetrySchema(Schema):
    """Nodes of a retry."""

    workflow_id = fields.String(required=True)
    status = fields.Enum(WorkflowStatus, **answered("after the retry", example="RUNNING"))
    dry_run = fields.Boolean(required=True)
    again = fields.List(
        fields.String(metadata={"example": _NODE}), **answered("nodes that run again, each after its parents")
    )
    kept = fields.List(fields.String(metadata={"example": "extract"}), **answered("nodes that keep their results"))
