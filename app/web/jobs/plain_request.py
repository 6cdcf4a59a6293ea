"""Fast path for plain requests for one-shot jobs, which are the most frequent: read without a schema."""

from typing import Any

from marshmallow import ValidationError

from app.web.http.request_fields import read_instant
from schema.job_bounds import MAX_IDEMPOTENCY_KEY, MAX_NAME, MAX_PRIORITY, QUEUE_NAME
from schema.states import Trigger

_USUAL = frozenset({"endpoint", "trigger", "idempotency_key", "run_at", "input"})
_SOME_QUEUE = "q"
_FIELDS = _USUAL | {"queue", "priority"}


def read_plain(body: Any) -> dict[str, Any] | None:
    """Return the same fields as NewJobSchema; None for other fields, unusual or invalid values.

    NewJobSchema then decides, and reports the faults.
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
    if not are_valid:
        return None
    if body.get("trigger") == Trigger.IMMEDIATE and "run_at" not in body:
        return body | {"trigger": Trigger.IMMEDIATE}
    return _delayed(body) if body.get("trigger") == Trigger.DELAYED else None


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


def _delayed(body: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return body | {"trigger": Trigger.DELAYED, "run_at": read_instant(body.get("run_at"))}
    except ValidationError:
        return None
