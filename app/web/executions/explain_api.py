"""/explain: reasons of several executions."""

from dataclasses import asdict
from datetime import timedelta
from typing import Any

from marshmallow import Schema, fields, validate

from app.kernel.access.api_keys import Scope
from app.kernel.described_fields import answered, described
from app.queue.reading.several_explanations import MAX_EXPLAINED, explain_several
from app.web.executions.execution_schemas import ExplanationSchema
from app.web.http.request_fields import Body
from app.web.openapi.resource import Resource
from app.web.services import services

resource = Resource("explanations", "Reasons of several executions at once.", write_scope=Scope.READ)


class ExplainSchema(Body):
    """Executions to explain, such as the executions of a page."""

    executions = fields.List(
        fields.String(validate=validate.Length(1, 128)),
        required=True,
        validate=validate.Length(1, MAX_EXPLAINED),
        **described(example=["exec_0198f0"]),
    )


class ExplainedExecutionSchema(ExplanationSchema):
    execution_id = fields.String(required=True)


class ExplainedExecutionsSchema(Schema):
    items = fields.List(fields.Nested(ExplainedExecutionSchema), required=True)
    left_out = fields.List(fields.String(), **answered("unknown executions, and executions beyond the time"))


@resource.route("POST", "/explain", body=ExplainSchema, returns=ExplainedExecutionsSchema)
def explain(body: dict[str, Any]) -> dict[str, Any]:
    """Explain up to 50 executions, as `GET /executions/{execution_id}/explain` does each.

    Executions that wait in the same partition are read together. After a second the rest is left out.
    """
    wanted = list(dict.fromkeys(body["executions"]))
    reclaim_every = timedelta(seconds=services().settings.reclaim_interval_seconds)
    found = explain_several(services().database, wanted, reclaim_every=reclaim_every, reasons=services().reasons)
    items = [{"execution_id": each, **asdict(found[each])} for each in wanted if each in found]
    return {"items": items, "left_out": [each for each in wanted if each not in found]}
