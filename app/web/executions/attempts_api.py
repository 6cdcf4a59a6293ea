"""/attempts."""

from typing import Any

from marshmallow import Schema, ValidationError, fields, validate

from app.kernel.access.api_keys import Scope
from app.kernel.described_fields import answered, described
from app.queue.reading.uncertain_attempts import UncertainFilter, page_of_uncertain
from app.web.executions.filter_fields import WORKER
from app.web.executions.result_schemas import ERROR
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Instant, Name, QueryInstant
from app.web.openapi.any_of import AnyOf
from app.web.openapi.resource import Resource
from app.web.services import services
from schema.states import ExecutionStatus

resource = Resource("attempts", "Attempts of all executions.", write_scope=Scope.JOBS_WRITE)


class UncertainAttemptSchema(Schema):
    """A failed attempt that may have been delivered, and the present state of its execution."""

    attempt_id = fields.String(required=True)
    execution_id = fields.String(**answered("also the idempotency key that the receiver got"))
    job_id = fields.String(required=True)
    endpoint = Name(required=True)
    endpoint_version = fields.Integer(required=True)
    attempt_number = fields.Integer(required=True)
    worker_id = fields.String(required=True, allow_none=True)
    due_at = Instant(required=True, allow_none=True)
    started_at = Instant(required=True)
    completed_at = Instant(required=True, allow_none=True)
    duration_ms = fields.Integer(required=True, allow_none=True)
    error = AnyOf(ERROR, required=True, allow_none=True)
    execution_status = fields.Enum(ExecutionStatus, **answered("the present one"))
    later_attempts = fields.Integer(**answered("attempts that have begun since"))
    created_at = Instant(required=True)


def _only_true(value: bool) -> None:
    if not value:
        raise ValidationError("Must be true: only uncertain attempts are listed.")


class UncertainQuery(PageQuery):
    uncertain = fields.Boolean(
        load_default=True, validate=_only_true, **described("`true`: attempts that failed and may have been delivered")
    )
    endpoint = fields.String(validate=validate.Length(1, 128))
    error_type = fields.String(validate=validate.Length(1, 128), **described(example="TIMEOUT"))
    worker_id = WORKER
    created_after = QueryInstant()
    created_before = QueryInstant()


@resource.route("GET", "/attempts", query=UncertainQuery, returns=page_schema(UncertainAttemptSchema))
def list_uncertain(query: dict[str, Any]) -> dict[str, Any]:
    """List attempts with an unknown outcome, newest first: the receiver may have got them.

    The receiver recognises them by the idempotency key, which all attempts of an execution share. A page may have fewer
    than `limit`, even none, if few of very many match: continue while there is a `cursor`.
    """
    wanted = page_request(query)
    given = {name: value for name, value in query.items() if name != "uncertain"}
    return page_answer(page_of_uncertain(services().database, UncertainFilter(**given), wanted), query)
