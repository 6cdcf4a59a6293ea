"""Requests for one-shot jobs that are as plain as most of them are, read without a schema."""

from typing import Any

from marshmallow import ValidationError

from app.web.http.request_fields import read_instant
from schema.job_bounds import MAX_IDEMPOTENCY_KEY, MAX_NAME, MAX_PRIORITY, QUEUE_NAME
from schema.states import Trigger

_USUAL = frozenset({"endpoint", "trigger", "idempotency_key", "run_at", "input"})
_SOME_QUEUE = "q"
_FIELDS = _USUAL | {"queue", "priority"}


def read_plain(body: Any) -> dict[str, Any] | None:
    """Return what NewJobSchema would load; None for whatever has other fields, is not valid, or looks unusual.

    The schema has the last word on those, and words for what is wrong.
    """
    if type(body) is not dict or not (body.keys() <= _USUAL or _has_plain_flow(body)):
        return None
    endpoint, key, input_ = body.get("endpoint"), body.get("idempotency_key", "-"), body.get("input", _NO_INPUT)
    are_valid = (
        type(endpoint) is str
        and 1 <= len(endpoint) <= MAX_NAME
        and type(key) is str
        and 1 <= len(key) <= MAX_IDEMPOTENCY_KEY
        and type(input_) is dict
    )
    return _with_time(body) if are_valid else None


def _has_plain_flow(body: dict[str, Any]) -> bool:
    queue, priority = body.get("queue", _SOME_QUEUE), body.get("priority", 0)
    return (
        body.keys() <= _FIELDS
        and type(queue) is str
        and QUEUE_NAME.fullmatch(queue) is not None
        and type(priority) is int
        and 0 <= priority <= MAX_PRIORITY
    )


_NO_INPUT: dict[str, Any] = {}


def _with_time(body: dict[str, Any]) -> dict[str, Any] | None:
    if body.get("trigger") == Trigger.IMMEDIATE and "run_at" not in body:
        return body | {"trigger": Trigger.IMMEDIATE}
    if body.get("trigger") != Trigger.DELAYED:
        return None
    try:
        return body | {"trigger": Trigger.DELAYED, "run_at": read_instant(body.get("run_at"))}
    except ValidationError:
        return None
