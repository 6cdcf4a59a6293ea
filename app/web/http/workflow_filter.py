"""Filter of the lists of jobs and executions by a workflow."""

from collections.abc import Mapping
from typing import Any

from marshmallow import fields, validate

from app.kernel.described_fields import described
from app.web.http.body import invalid

OF_WORKFLOW = fields.String(
    validate=validate.Length(1, 128),
    **described("id of a workflow: its nodes and items in their order; excludes other filters"),
)


def workflow_alone(filters: Mapping[str, Any]) -> str | None:
    """Return the workflow of a filter, or None; raises InvalidRequestError if another filter is given too."""
    workflow_id: str | None = filters.get("workflow")
    if workflow_id is not None and (others := sorted(filters.keys() - {"workflow"})):
        raise invalid([{"pointer": name, "message": "Must be absent with `workflow`."} for name in others])
    return workflow_id
