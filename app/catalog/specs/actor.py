"""Actors: Dramatiq actors of the user, which processes of the user run (`actors.dispatch.actor`)."""

from collections.abc import Mapping
from typing import Any

from marshmallow import fields

from app.catalog.specs.spec_fields import DescribedValue, milliseconds, soft_milliseconds, templated, text, whole
from app.catalog.specs.transport import Example, Outcome, Transport
from app.catalog.templates.compilation import ALL, FieldKind
from app.kernel.suggestions import StrictSchema

MAX_LOST = 3
DEFAULT_TIMEOUT_MS = 630_000
GRACE_MS = 60_000
"""An attempt counts as stuck this long after its `timeout_ms`, counted from its claim."""


def _any_arguments(_value: Any) -> None:
    """Accept any value: the process of the user reads the rendered arguments."""


def _target(_spec: Mapping[str, Any]) -> str:
    raise ValueError("processes of the user connect to the worker, so an actor has no server and no breaker")


class ActorSpec(StrictSchema):
    """`spec` of an actor endpoint; a process that serves the actor registers it."""

    actor = text(255, required=True, metadata={"description": "name of the actor", "example": "send_mail"})
    queue = text(255, load_default="default", metadata={"description": "Dramatiq queue of the actor"})
    arguments = templated(
        DescribedValue(
            _any_arguments,
            {},
            load_default="{{input}}",
            metadata={
                "description": "an object: keyword arguments; with `args`, `kwargs` and `options` only: a message",
                "example": "{{input}}",
            },
        ),
        FieldKind.ARGUMENTS,
        ALL,
    )
    timeout_ms = milliseconds(load_default=DEFAULT_TIMEOUT_MS)
    soft_timeout_ms = soft_milliseconds()
    max_lost = whole(
        1,
        100,
        load_default=MAX_LOST,
        metadata={"description": "the execution fails with WORKER_LOST once so many attempts have lost their process"},
    )


class ActorOutput(Outcome):
    """Result of an actor."""

    body = fields.Raw(metadata={"description": "the stored result", "example": {"sent": True}})
    skipped = fields.Boolean(metadata={"description": "true if a middleware of the process skipped the message"})


TRANSPORT = Transport(
    title="actors",
    noun="an actor",
    target=_target,
    spec=ActorSpec(),
    output=ActorOutput(),
    errors=("PROCESS_LOST", "TIMEOUT"),
    examples=(
        Example(
            name="send-mail",
            spec={"actor": "send_mail", "queue": "default", "timeout_ms": 630_000},
            retry_policy={"max_attempts": 100},
        ),
    ),
)
