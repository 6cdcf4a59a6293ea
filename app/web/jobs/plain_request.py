"""Fast path of the requests for one-shot jobs: reads plain bodies, which most bodies are, without a schema."""

from typing import Any

from marshmallow import ValidationError

from app.web.http.request_fields import read_delay, read_instant
from schema.job_bounds import MAX_IDEMPOTENCY_KEY, MAX_NAME, MAX_PRIORITY, OWN_KEY_PREFIX, QUEUE_NAME
from schema.states import Trigger

_PLAIN = frozenset({"endpoint", "trigger", "idempotency_key", "run_at", "delay", "input", "queue", "priority"})
_NO_INPUT: dict[str, Any] = {}


def read_plain(body: Any) -> dict[str, Any] | None:
    """Return the fields of a request for a one-shot job as NewJobSchema does, without a schema.

    None for other fields and for unusual or invalid values: NewJobSchema then decides, and reports the faults.
    """
    if type(body) is not dict or not body.keys() <= _PLAIN:
        return None
    endpoint, key, input_ = body.get("endpoint"), body.get("idempotency_key", "-"), body.get("input", _NO_INPUT)
    queue, priority, trigger = body.get("queue", "q"), body.get("priority", 0), body.get("trigger")
    are_valid = (
        (type(endpoint) is str and 1 <= len(endpoint) <= MAX_NAME)
        and (type(key) is str and 1 <= len(key) <= MAX_IDEMPOTENCY_KEY and not key.startswith(OWN_KEY_PREFIX))
        and type(input_) is dict
        and (type(queue) is str and QUEUE_NAME.fullmatch(queue) is not None)
        and (type(priority) is int and 0 <= priority <= MAX_PRIORITY)
    )
    has_instant, has_delay = "run_at" in body, "delay" in body
    try:
        if are_valid and trigger == Trigger.DELAYED and has_instant != has_delay:
            time = {"run_at": read_instant(body["run_at"])} if has_instant else {"delay": read_delay(body["delay"])}
            return body | {"trigger": Trigger.DELAYED} | time
    except ValidationError:
        return None
    is_plain = are_valid and trigger == Trigger.IMMEDIATE and not has_instant and not has_delay
    return body | {"trigger": Trigger.IMMEDIATE} if is_plain else None
