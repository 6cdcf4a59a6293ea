"""Actors: Dramatiq actors of the user, which processes of the user run (`actors.dispatch.actor`)."""

import hashlib
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from marshmallow import ValidationError, fields

from app.catalog.specs.spec_fields import DescribedValue, milliseconds, soft_milliseconds, templated, text, whole
from app.catalog.specs.transport import Example, Outcome, Transport
from app.catalog.templates.compilation import ALL, FieldKind
from app.kernel.described_fields import described
from app.kernel.suggestions import StrictSchema
from schema.inline_bounds import MAX_TIMEOUT_MS
from schema.job_bounds import MAX_NAME

MAX_ACTOR_NAME = 255  # and of its queue
OUTCOME_MS = 30_000  # Dramatiq ends an actor at its time limit; the worker waits a little longer for the outcome
_MESSAGE_FIELDS = {"queue_name", "actor_name", "args", "kwargs", "options", "message_id", "message_timestamp"}
_PLAIN_ACTOR = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
_DIGEST_CHARACTERS = 8
_SOLE_PLACEHOLDER = re.compile(r"^\s*\{\{[\s\S]*\}\}\s*$")
_ARGUMENTS_SCHEMA = {"anyOf": [{"type": "object"}, {"type": "string", "pattern": _SOLE_PLACEHOLDER.pattern}]}


class ErrorCategory(StrEnum):
    """Category of an actor's error: RETRYABLE and FATAL by the decision of the code, the others by its exception."""

    RETRYABLE = "RETRYABLE"  # another attempt follows
    FATAL = "FATAL"  # raised by the last attempt
    EXPECTED = "EXPECTED"  # its type is in `throws`
    INTERRUPTED = "INTERRUPTED"  # time limit, abort or shutdown
    MALFORMED = "MALFORMED"  # the message cannot be decoded, or its process has no such actor


def endpoint_name(actor: str) -> str:
    """Return the name of the endpoint of an actor: `send_mail` is `send-mail`; other spellings end with a digest."""
    if _PLAIN_ACTOR.fullmatch(actor) and len(actor) <= MAX_NAME - _DIGEST_CHARACTERS - 1:
        return actor.replace("_", "-")
    digest = hashlib.sha256(actor.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    words = "-".join(re.findall(r"[a-z0-9]+", actor.lower()))[: MAX_NAME - _DIGEST_CHARACTERS - 1]
    return "-".join(part for part in (words.strip("-"), digest) if part)


def timeout_of(time_limit: object) -> int:
    """Return the longest time of an attempt for a time limit of Dramatiq, both in milliseconds."""
    if not isinstance(time_limit, int | float) or isinstance(time_limit, bool) or not time_limit < MAX_TIMEOUT_MS:
        return MAX_TIMEOUT_MS
    return min(max(1, int(max(time_limit, -OUTCOME_MS)) + OUTCOME_MS), MAX_TIMEOUT_MS)


def timeout_of_message(spec: Mapping[str, Any]) -> int:
    """Return the milliseconds of an attempt: a message may have a longer time limit than its actor.

    `app.queue.executions.reclaim_candidates` allows at least as much, by the stored input.
    """
    timeout_ms: int = spec["timeout_ms"]
    arguments = spec["arguments"]
    options = arguments.get("options") if isinstance(arguments, Mapping) else None
    own = options.get("time_limit") if isinstance(options, Mapping) else None
    if not isinstance(own, int | float) or isinstance(own, bool):
        return timeout_ms
    is_message = arguments.keys() <= _MESSAGE_FIELDS and ("args" in arguments or "kwargs" in arguments)
    return max(timeout_ms, timeout_of(own)) if is_message else timeout_ms


def _check_arguments(value: Any) -> None:
    if not isinstance(value, Mapping) and not (isinstance(value, str) and _SOLE_PLACEHOLDER.fullmatch(value)):
        raise ValidationError("Must be an object, or one {{input}} or {{input.NAME}} placeholder.")


def _target(_spec: Mapping[str, Any]) -> str:
    raise ValueError("processes of the user connect to the worker, so an actor has no server and no breaker")


class ActorSpec(StrictSchema):
    """`spec` of an actor endpoint; a process that serves the actor registers it."""

    actor = text(MAX_ACTOR_NAME, required=True, **described("name of the actor", example="send_mail"))
    queue = text(MAX_ACTOR_NAME, load_default="default", **described("Dramatiq queue of the actor"))
    arguments = templated(
        DescribedValue(
            _check_arguments,
            _ARGUMENTS_SCHEMA,
            load_default="{{input}}",
            **described(
                "an object: keyword arguments; with `args`, `kwargs` and `options` only: a message", example="{{input}}"
            ),
        ),
        FieldKind.ARGUMENTS,
        ALL,
    )
    timeout_ms = milliseconds(load_default=630_000)
    soft_timeout_ms = soft_milliseconds()
    max_lost = whole(
        1,
        100,
        load_default=3,
        **described("the execution fails with WORKER_LOST once so many attempts have lost their process"),
    )
    cron = text(200, **described("schedule that the process has registered", example="0 9 * * *"))
    timezone = text(100, **described("time zone of `cron`", example="Europe/Berlin"))
    interval = text(20, **described("interval that the process has registered", example="10m"))


class ActorOutput(Outcome):
    """Result of an actor."""

    body = fields.Raw(**described("the stored result", example={"sent": True}))
    skipped = fields.Boolean(**described("true if a middleware of the process skipped the message"))


TRANSPORT = Transport(
    title="actors",
    noun="an actor",
    target=_target,
    spec=ActorSpec(),
    output=ActorOutput(),
    errors=("PROCESS_LOST", "TIMEOUT"),
    stuck_grace_ms=60_000,
    examples=(
        Example(
            name="send-mail",
            spec={"actor": "send_mail", "queue": "default", "timeout_ms": 630_000},
            retry_policy={"max_attempts": 100},
        ),
    ),
)
