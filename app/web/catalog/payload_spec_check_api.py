"""/payload-specs/{name}/check."""

from typing import Any

from marshmallow import Schema, fields

from app.catalog.named_table import PAYLOAD_SPECS
from app.kernel.access.api_keys import Scope
from app.kernel.described_fields import answered, described
from app.kernel.errors import InvalidSchemaError, PayloadSpecNotFoundError
from app.queue.jobs.payload_spec_check import MAX_ENDPOINTS, MAX_FAILURES, SpecCheckResult, check_inputs
from app.web.http.request_fields import Body, Instant
from app.web.openapi.resource import Resource
from app.web.services import services

# Nothing is stored, so the scope `read` is enough.
resource = Resource("payload-spec-checks", "Checks of new schemas against recent inputs.", write_scope=Scope.READ)


class SpecCheckQuestionSchema(Body):
    # Any JSON is accepted here, so that its faults are reported as INVALID_SCHEMA.
    schema_ = fields.Raw(
        required=True, allow_none=True, data_key="schema", **described("JSON Schema 2020-12", type="object")
    )


class InputFaultSchema(Schema):
    pointer = fields.String(**answered(example="/user_id"))
    message = fields.String(**answered(example="'user_id' is missing"))


class FailedInputSchema(Schema):
    """An input that the schema refuses."""

    job_id = fields.String(required=True)
    endpoint = fields.String(required=True)
    created_at = Instant(required=True)
    faults = fields.List(fields.Nested(InputFaultSchema), required=True)


class SpecCheckSchema(Schema):
    endpoints = fields.Integer(**answered("endpoints that use the spec", example=3))
    checked = fields.Integer(**answered(example=100))
    passed = fields.Integer(**answered(example=97))
    failed = fields.Integer(**answered(example=3))
    failures = fields.List(
        fields.Nested(FailedInputSchema), **answered(f"the newest refused inputs, up to {MAX_FAILURES}")
    )
    is_complete = fields.Boolean(
        **answered(f"`false` if more than {MAX_ENDPOINTS} endpoints, or inputs too large, were left out")
    )


@resource.route(
    "POST",
    "/payload-specs/<name>/check",
    body=SpecCheckQuestionSchema,
    returns=SpecCheckSchema,
    errors=[PayloadSpecNotFoundError, InvalidSchemaError],
)
def check(body: dict[str, Any], name: str) -> SpecCheckResult:
    """Check a schema against the newest 100 inputs of the endpoints that use a payload spec; changes nothing.

    Takes at most some seconds. Waiting jobs keep their inputs: only new jobs are checked by a new schema.
    """
    database = services().database
    PAYLOAD_SPECS.get(database, name)
    return check_inputs(database, name, body["schema_"])
