"""/dead-letters."""

from dataclasses import asdict
from typing import Any

from marshmallow import Schema, fields, validate

from app.features.dead_letters.letter_list import LetterFilter, LetterState, get_letter, page_of_letters
from app.features.dead_letters.redrive import Anew, redrive
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest, Position
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
from app.web.executions.execution_schemas import AttemptSchema, ExecutionSchema, shape_record
from app.web.http import request_traces
from app.web.http.conditions import actor
from app.web.http.pagination import PageQuery, page_answer, page_request, page_schema
from app.web.http.request_fields import Body, Instant, Name, QueryInstant
from app.web.http.request_ids import note_ids
from app.web.jobs.labels import LabelSelector
from app.web.openapi.resource import Resource
from app.web.services import services, wake
from schema.states import Resolution

MOST_ATTEMPTS = 100
MAX_NOTE = 1_000

resource = Resource(
    "dead-letters",
    "Executions that have failed, until somebody has seen to them. A policy's `reject_on` leaves none. What is open is "
    "kept beyond the retention, with its execution and its attempts.",
    write_scope=Scope.JOBS_WRITE,
)

_ERROR_TYPE = {"example": "HTTP_ERROR", "description": "of the last attempt, or why it failed without one: `EXPIRED`"}


class DeadLetterSchema(Schema):
    """An execution that has failed."""

    letter_id = fields.String(required=True)
    execution_id = fields.String(required=True)
    job_id = fields.String(required=True)
    endpoint = Name(required=True)
    endpoint_version = fields.Integer(required=True)
    labels = fields.Dict(required=True, allow_none=True, metadata={"description": "of the job", "example": {"a": "b"}})
    error_type = fields.String(required=True, metadata=_ERROR_TYPE)
    message = fields.String(
        required=True,
        allow_none=True,
        metadata={"description": f"of that error, up to {dead_letters_store.MOST_MESSAGE} characters"},
    )
    attempt_count = fields.Integer(required=True)
    failed_at = Instant(required=True)
    resolution = fields.Enum(
        Resolution,
        required=True,
        allow_none=True,
        metadata={"description": "`null` while it is open; `RETRIED`: its execution was, without the letter"},
    )
    resolved_at = Instant(required=True, allow_none=True)
    resolved_by = fields.String(required=True, allow_none=True, metadata={"description": "the name of the API key"})
    note = fields.String(required=True, allow_none=True, metadata={"description": "of who archived it"})
    redriven_as = fields.String(
        required=True, allow_none=True, metadata={"description": "the execution that it goes on as"}
    )


class DeadLetterViewSchema(DeadLetterSchema):
    """A dead letter with all that is known of it."""

    execution = fields.Nested(ExecutionSchema, required=True, metadata={"description": "as it is now, with its input"})
    attempts = fields.List(
        fields.Nested(AttemptSchema),
        required=True,
        metadata={"description": f"that it failed with, the latest first, up to {MOST_ATTEMPTS}"},
    )
    more_attempts = fields.String(
        required=True,
        allow_none=True,
        metadata={
            "description": f"the list that has all, where these are only the latest {MOST_ATTEMPTS}; otherwise `null`",
            "example": None,
        },
    )


class DeadLetterQuery(PageQuery):
    """Filters of the list."""

    state = fields.Enum(LetterState, by_value=True, load_default=LetterState.OPEN)
    endpoint = fields.String(validate=validate.Length(1, 128))
    error_type = fields.String(validate=validate.Length(1, 128), metadata={"example": "HTTP_ERROR"})
    labels = LabelSelector()
    failed_after = QueryInstant()
    failed_before = QueryInstant()


class RedriveSchema(Body):
    """What a new job is made of; with neither field the same execution goes on."""

    endpoint = Name(
        allow_none=True,
        metadata={"description": "where the new job goes, to its newest version; that of the letter when absent"},
    )
    input = fields.Dict(
        allow_none=True, metadata={"description": "of the new job; that of the letter's job when absent"}
    )


class ArchiveSchema(Body):
    """Why nothing is to follow."""

    note = fields.String(
        required=True, validate=validate.Length(1, MAX_NOTE), metadata={"example": "The customer was deleted."}
    )


@resource.route("GET", "/dead-letters", query=DeadLetterQuery, returns=page_schema(DeadLetterSchema))
def list_(query: dict[str, Any]) -> dict[str, Any]:
    """List dead letters, those that failed last first.

    A page may have fewer than `limit`, even none, where what `labels` or `error_type` want are few among very many
    others: go on as long as there is a cursor.
    """
    wanted = page_request(query)
    return page_answer(page_of_letters(services().database, LetterFilter(**query), wanted), asdict, query)


@resource.route("GET", "/dead-letters/<letter_id>", returns=DeadLetterViewSchema, errors=[DeadLetterNotFoundError])
def get(letter_id: str) -> dict[str, Any]:
    """Get a dead letter with its execution and its attempts."""
    return view_of(services().database, letter_id)


def view_of(database: Database, letter_id: str) -> dict[str, Any]:
    """Read what DeadLetterViewSchema shows; raises DeadLetterNotFoundError."""
    letter = get_letter(database, letter_id)
    execution = execution_queries.get_execution(database, letter.execution_id)
    before = Position(EPOCH, str(letter.attempt_count + 1))
    attempts = execution_queries.attempts_of(database, letter.execution_id, PageRequest(MOST_ATTEMPTS, before))
    more = None if attempts.next is None else f"/executions/{letter.execution_id}/attempts"
    return asdict(letter) | {
        "execution": shape_record(execution),
        "attempts": map(shape_record, attempts.items),
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
    """Let what has failed run once more, which resolves the letter.

    With `{}` its execution gets as many attempts more as its retry policy allows, with the idempotency key and the
    version of the endpoint that it had. With an `endpoint` (its own one, too) or an `input` it becomes a new IMMEDIATE
    job with the name, the labels and the callbacks of the old one, at the same endpoint also with its queue and its
    priority, checked as any other job. The same request again changes nothing more; 409 for a letter that is resolved
    otherwise.
    """
    anew = Anew(body.get("endpoint"), body.get("input")) if any(value is not None for value in body.values()) else None
    trace = request_traces.trace_of_new_jobs()
    wake(redrive(services().creator, letter_id, anew, actor=actor().name, trace=trace))
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
    """Resolve a letter that nothing is to follow. From then on the retention counts."""
    database = services().database
    dead_letters_store.archive(database, letter_id, note=body["note"], actor=actor().name)
    return asdict(get_letter(database, letter_id))
