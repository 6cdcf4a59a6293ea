"""/callbacks: schema of the input of callback jobs."""

from typing import Any

from marshmallow import Schema, fields

from app.catalog.callback_outcome import OUTCOME_SCHEMA
from app.kernel.described_fields import answered
from app.web.openapi.resource import Resource

resource = Resource("callbacks", "Endpoints that receive the outcome of executions.")


class OutcomeSchemaSchema(Schema):
    """A JSON Schema (draft 2020-12)."""

    schema = fields.Dict(**answered(example={"type": "object", "title": "Outcome"}))


@resource.route("GET", "/callbacks/schema", returns=OutcomeSchemaSchema)
def schema() -> dict[str, Any]:
    """Get the JSON Schema of the input of callback jobs, for use in a payload spec."""
    return {"schema": OUTCOME_SCHEMA}
