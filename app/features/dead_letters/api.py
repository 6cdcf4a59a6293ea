"""/dead-letters."""

from dataclasses import asdict
from typing import Any

from marshmallow import Schema, fields, validate

from app.features.dead_letters.letter_list import LetterFilter, LetterState, get_letter, page_of_letters
from app.features.dead_letters.redrive import Replacement, redrive
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest, Position
from app.kernel.described_fields import answered, described
from app.kernel.errors import (
    ConflictError,
    DeadLetterNotFoundError,
    EndpointNotFoundError,
    InputValidationError,
    InvalidCallbackError,
)
from app.kernel.formats import EPOCH
from app.queue.ending import letters as dead_letters_store
from app.queue.reading import execution_queries
from app.web.executions.execution_schemas import AttemptSchema, ExecutionSchema
from app.web.http import request_log
from app.web.http.conditions import actor
from app.web.http.ids_field import ChosenIds
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Body, Instant, Name, QueryInstant
from app.web.http.request_log import note_ids
from app.web.jobs.labels import LabelSelector
from app.web.openapi.resource import Resource
from app.web.services import services, wake
from schema.states import Resolution

MAX_ATTEMPTS = 100
MAX_NOTE = 1_000

resource = Resource(
    "dead-letters",
    "Failed executions until they are resolved. A policy's `reject_on` creates none. Open dead letters are kept beyond "
    "the retention, with their execution and its attempts.",
    write_scope=Scope.JOBS_WRITE,
)

ERROR_TYPE = {
    "example": "HTTP_ERROR",
    "description": "of the last attempt, or of a failure without an attempt: `EXPIRED`",
}


def group_field() -> fields.String:
    """Return the filter by a group of `GET /dead-letters/groups`."""
    pattern = validate.Regexp("^[0-9a-f]{16}$")
    return fields.String(
        validate=pattern, **described("`group` of `GET /dead-letters/groups`", example="8f14e45fceea167a")
    )


def letter_ids_field() -> ChosenIds:
    return ChosenIds("letter_id", "these dead letters")


class DeadLetterSchema(Schema):
    """A failed execution."""

    letter_id = fields.String(required=True)
    execution_id = fields.String(required=True)
    job_id = fields.String(required=True)
    endpoint = Name(required=True)
    endpoint_version = fields.Integer(required=True)
    labels = fields.Dict(**answered("of the job", null=True, example={"a": "b"}))
    error_type = fields.String(required=True, metadata=ERROR_TYPE)
    message = fields.String(**answered(f"of that error, up to {dead_letters_store.MAX_MESSAGE} characters", null=True))
    attempt_count = fields.Integer(required=True)
    failed_at = Instant(required=True)
    resolution = fields.Enum(
        Resolution, **answered("`null` while open; `RETRIED`: its execution was retried directly", null=True)
    )
    resolved_at = Instant(required=True, allow_none=True)
    resolved_by = fields.String(**answered("the name of the API key", null=True))
    note = fields.String(**answered("reason of the archiving", null=True))
    redriven_as = fields.String(**answered("the execution that repeats it", null=True))


class DeadLetterViewSchema(DeadLetterSchema):
    """A dead letter with its execution and attempts."""

    execution = fields.Nested(ExecutionSchema, **answered("in its current state, with its input"))
    attempts = fields.List(
        fields.Nested(AttemptSchema), **answered(f"attempts up to the failure, latest first, {MAX_ATTEMPTS} at most")
    )
    more_attempts = fields.String(
        **answered(
            f"URL of the full list if there are more than {MAX_ATTEMPTS}; otherwise `null`", null=True, example=None
        )
    )


class LetterQuery(Body):
    """Filters of lists and of groups."""

    state = fields.Enum(LetterState, by_value=True, load_default=LetterState.OPEN)
    endpoint = fields.String(validate=validate.Length(1, 128))
    error_type = fields.String(validate=validate.Length(1, 128), **described(example="HTTP_ERROR"))
    labels = LabelSelector()
    failed_after = QueryInstant()
    failed_before = QueryInstant()


class DeadLetterQuery(LetterQuery, PageQuery):
    """Filters of the list."""

    group = group_field()
    letter_ids = letter_ids_field()


class RedriveSchema(Body):
    """Endpoint and input of a new job; without both, the execution itself is retried."""

    endpoint = Name(
        allow_none=True,
        **described("endpoint of the new job, in its newest version; default: the endpoint of the letter"),
    )
    input = fields.Dict(allow_none=True, **described("of the new job; default: the input of the letter's job"))


class ArchiveSchema(Body):
    """Reason of an archiving."""

    note = fields.String(
        required=True, validate=validate.Length(1, MAX_NOTE), **described(example="The customer was deleted.")
    )


@resource.route("GET", "/dead-letters", query=DeadLetterQuery, returns=page_schema(DeadLetterSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List dead letters, latest failure first.

    A page may have fewer letters than `limit`, even none, if few of very many match `labels` or `error_type`: continue
    as long as there is a cursor.
    """
    wanted = page_request(query)
    return page_answer(page_of_letters(services().database, LetterFilter(**query), wanted), query)


@resource.route("GET", "/dead-letters/<letter_id>", returns=DeadLetterViewSchema, errors=[DeadLetterNotFoundError])
def get(letter_id: str) -> dict[str, Any]:
    """Get a dead letter with its execution and its attempts."""
    return view_of(services().database, letter_id)


def view_of(database: Database, letter_id: str) -> dict[str, Any]:
    """Return the fields of DeadLetterViewSchema; raises DeadLetterNotFoundError."""
    letter = get_letter(database, letter_id)
    execution = execution_queries.get_execution(database, letter.execution_id)
    before = Position(EPOCH, str(letter.attempt_count + 1))
    attempts = execution_queries.attempts_of(database, letter.execution_id, PageRequest(MAX_ATTEMPTS, before))
    more = None if attempts.next is None else f"/executions/{letter.execution_id}/attempts"
    return asdict(letter) | {
        "execution": execution,
        "attempts": attempts.items,
        "more_attempts": more,
    }


@resource.route(
    "POST",
    "/dead-letters/<letter_id>/redrive",
    body=RedriveSchema,
    returns=DeadLetterSchema,
    errors=[
        DeadLetterNotFoundError,
        EndpointNotFoundError,
        ConflictError,
        InputValidationError,
        InvalidCallbackError,
    ],
)
def redrive_(body: dict[str, Any], letter_id: str) -> dict[str, Any]:
    """Redrive a dead letter, which resolves it.

    With `{}` its execution gets a full set of new attempts by its retry policy, with the same idempotency key and the
    same version of the endpoint. With an `endpoint` (its own or another) or an `input`, a new IMMEDIATE job is created
    with the name, labels and callbacks of the old job, at the same endpoint also with its queue and priority; it is
    validated like any other job. Repeating the same request changes nothing. The status is 409 if the letter was
    resolved in another way.
    """
    given = {name: value for name, value in body.items() if value is not None}
    replacement = Replacement(**given) if given else None
    trace = request_log.trace_of_new_jobs()
    wake(redrive(services().creator, letter_id, replacement, actor=actor().name, trace=trace))
    letter = get_letter(services().database, letter_id)
    note_ids(execution_id=letter.redriven_as or letter.execution_id)
    return asdict(letter)


@resource.route(
    "POST",
    "/dead-letters/<letter_id>/archive",
    body=ArchiveSchema,
    returns=DeadLetterSchema,
    errors=[DeadLetterNotFoundError, ConflictError],
)
def archive(body: dict[str, Any], letter_id: str) -> dict[str, Any]:
    """Archive a dead letter: it is resolved without a retry, and deleted after the retention."""
    database = services().database
    dead_letters_store.archive(database, letter_id, note=body["note"], actor=actor().name)
    return asdict(get_letter(database, letter_id))
