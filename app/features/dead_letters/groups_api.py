"""/dead-letters/groups, and /dead-letters/{letter_id}/since: changes since a failure."""

from typing import Any

from marshmallow import Schema, fields, validate

from app.features.dead_letters import api
from app.features.dead_letters.api import ERROR_TYPE, LetterQuery
from app.features.dead_letters.letter_groups import MAX_LOOKED_AT, LetterGroups, groups_of
from app.features.dead_letters.letter_list import LetterFilter
from app.features.dead_letters.message_form import FOLDED_ID, FOLDED_NUMBER
from app.features.dead_letters.since_failure import MAX_COUNTED, SinceFailure, since_failure
from app.kernel.described_fields import answered
from app.kernel.errors import DeadLetterNotFoundError
from app.web.http.request_fields import Instant, Name
from app.web.services import services

resource = api.resource


class LetterGroupSchema(Schema):
    """Dead letters with the same fault."""

    group = fields.String(**answered("filter of the list, of redrives and of `archive`"))
    endpoint = Name(required=True)
    error_type = fields.String(required=True, metadata=ERROR_TYPE)
    status_code = fields.Integer(**answered("of the answer", null=True))
    message = fields.String(**answered(f"with `{FOLDED_ID}` for ids and `{FOLDED_NUMBER}` for numbers"))
    example = fields.String(**answered("the newest message", null=True))
    count = fields.Integer(required=True)
    first_failed_at = Instant(required=True)
    last_failed_at = Instant(required=True)
    endpoint_versions = fields.List(fields.Integer(), required=True)
    letters = fields.List(fields.String(), **answered("the newest three"))


class LetterGroupsSchema(Schema):
    """Groups of dead letters, the largest first."""

    items = fields.List(fields.Nested(LetterGroupSchema), required=True)
    looked_at = fields.Integer(**answered("letters that were read, the newest first"))
    is_complete = fields.Boolean(**answered(f"`false` if more than {MAX_LOOKED_AT:,} letters would have to be read"))


class DifferenceSchema(Schema):
    """One change since the failure; a config or a secret has no values here."""

    kind = fields.String(required=True, validate=validate.OneOf(["endpoint", "config", "secret"]))
    name = fields.String(required=True)
    path = fields.String(**answered(null=True, example="spec/timeout_ms"))
    before = fields.Raw(**answered(null=True, example=5000))
    after = fields.Raw(**answered(null=True, example=10000))
    at = Instant(required=True, allow_none=True)


class SinceFailureSchema(Schema):
    """Changes since a failure."""

    letter_id = fields.String(required=True)
    failed_at = Instant(required=True)
    endpoint = Name(required=True)
    endpoint_version = fields.Integer(required=True)
    newest_version = fields.Integer(required=True, allow_none=True)
    is_paused = fields.Boolean(required=True)
    is_deleted = fields.Boolean(required=True)
    breaker = fields.String(**answered("of its target, unless closed", null=True))
    succeeded = fields.Integer(**answered(f"later executions, {MAX_COUNTED} at most"))
    failed = fields.Integer(**answered(f"later executions, {MAX_COUNTED} at most"))
    changes = fields.List(fields.Nested(DifferenceSchema), required=True)
    verdict = fields.String(**answered("prospects of a redrive, in a sentence"))


@resource.route("GET", "/dead-letters/groups", query=LetterQuery, returns=LetterGroupsSchema)
def groups(query: dict[str, Any]) -> LetterGroups:
    """Group the newest dead letters of a filter by endpoint, error, status of the answer and form of the message.

    Up to 10,000 letters are read, for a quarter of a second.
    """
    return groups_of(services().database, LetterFilter(**query))


@resource.route("GET", "/dead-letters/<letter_id>/since", returns=SinceFailureSchema, errors=[DeadLetterNotFoundError])
def since(letter_id: str) -> SinceFailure:
    """List the changes since a failure, and count later executions of the endpoint by their ends."""
    return since_failure(services().database, letter_id)
