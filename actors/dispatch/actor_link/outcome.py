"""Outcomes that processes report, as results, errors and jobs; a frame may hold anything."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from actors.dispatch.actor_link.frames import FrameKind
from app.catalog.specs.actor import ErrorCategory
from app.kernel.access.api_keys import CREATE_PREFIX
from app.kernel.formats import MAX_DIGITS, is_deeper, is_unstorable, storable
from app.queue.executions.execution_model import DeliveryError, FollowingJob
from schema.job_bounds import (
    MAX_DELAY_MS,
    MAX_IDEMPOTENCY_KEY,
    MAX_INPUT_BYTES,
    MAX_JSON_DEPTH,
    MAX_PRIORITY,
    OWN_KEY_PREFIX,
)

MAX_RESULT_BYTES = 262_144
MAX_TYPE_CHARACTERS = 200
MAX_TRACEBACK_CHARACTERS = 16_384
MAX_OPTIONS_BYTES = 16_384
MAX_CAUSES = 10
MAX_FOLLOWING = 500  # jobs that one statement creates
MAX_FOLLOWING_BYTES = 4 * 1024 * 1024
_MAY_HAVE_LONG_INTEGER = re.compile("(?<![0-9])[0-9]{39}")  # more than MAX_DIGITS
_REPORTED = {ErrorCategory.EXPECTED.value, ErrorCategory.INTERRUPTED.value, ErrorCategory.MALFORMED.value}


def result_of(frame: Mapping[str, Any]) -> dict[str, Any]:
    """Return the output of a DONE; raises DeliveryError for a result that is too large or cannot be stored."""
    if frame["kind"] != FrameKind.DONE:
        raise DeliveryError("INTERNAL_ERROR", f"the process sent {frame['kind']!r} as an outcome", permanent=True)
    output: dict[str, Any] = {"skipped": True} if frame.get("skipped") is True else {}
    if "result" in frame:
        size = _size_of(frame["result"], "UNSTORABLE", "the result", MAX_RESULT_BYTES)
        if size > MAX_RESULT_BYTES:
            bound = f"at most {MAX_RESULT_BYTES} are stored"
            message = f"the result has {size} bytes; {bound}: use a results backend of your own"
            raise DeliveryError("RESULT_TOO_LARGE", message, permanent=True)
        output["body"] = frame["result"]
    return output


def again_error(frame: Mapping[str, Any]) -> DeliveryError:
    """Return the error of an AGAIN, which asks for another attempt."""
    delay = frame.get("delay_ms")
    again_ms = min(max(0, delay), MAX_DELAY_MS) if isinstance(delay, int) else 0
    return _error(frame.get("error"), permanent=False, again_ms=again_ms)


def failed_error(frame: Mapping[str, Any]) -> DeliveryError:
    """Return the error of a FAILED, which is final."""
    return _error(frame.get("error"), permanent=True, again_ms=None)


def following_jobs(frame: Mapping[str, Any], may_start: Callable[[str], bool]) -> tuple[FollowingJob, ...]:
    """Return the jobs that the process enqueued after the actor; raises DeliveryError for a bad or forbidden job."""
    then = frame.get("then")
    if not then:
        return ()
    if not isinstance(then, list) or len(then) > MAX_FOLLOWING:
        raise DeliveryError("THEN_REFUSED", f"`then` is a list of at most {MAX_FOLLOWING} jobs", permanent=True)
    if (size := _size_of(then, "THEN_REFUSED", "a following job", MAX_FOLLOWING_BYTES)) > MAX_FOLLOWING_BYTES:
        message = f"the following jobs have {size} bytes; at most {MAX_FOLLOWING_BYTES} are written with an outcome"
        raise DeliveryError("THEN_REFUSED", message, permanent=True)
    jobs = tuple(_following(each) for each in then)
    if (closed := next((each.endpoint for each in jobs if not may_start(each.endpoint)), None)) is not None:
        raise DeliveryError(
            "THEN_REFUSED",
            f"a following job of {closed!r} was refused: the process has no actor of it in the queues of its API key; "
            f"add the scope '{CREATE_PREFIX}{closed}' to the key",
            permanent=True,
        )
    return jobs


def _following(job: Any) -> FollowingJob:
    match job:
        case {"endpoint": str(endpoint), "input": dict(input_), "key": str(key)} if (
            1 <= len(key) <= MAX_IDEMPOTENCY_KEY
        ):
            _check_as_a_request(key, input_)
            return FollowingJob(
                endpoint,
                input_,
                key,
                _bounded(job.get("delay_ms"), MAX_DELAY_MS),
                _bounded(job.get("priority"), MAX_PRIORITY),
            )
    message = "a following job has `endpoint`, `input` and `key`"
    raise DeliveryError("THEN_REFUSED", message, permanent=True)


def _check_as_a_request(key: str, input_: Mapping[str, Any]) -> None:
    """Raise DeliveryError for a key or an input that POST /jobs would refuse."""
    reason = None
    if key.startswith(OWN_KEY_PREFIX):
        reason = f"its key begins with {OWN_KEY_PREFIX!r}, which is reserved: use another message_id"
    elif is_deeper(input_, MAX_JSON_DEPTH - 1):
        reason = f"its input is nested deeper than {MAX_JSON_DEPTH - 1} levels"
    elif (size := len(json.dumps(input_))) > MAX_INPUT_BYTES:
        reason = f"its input has {size} bytes; at most {MAX_INPUT_BYTES} are stored"
    if reason is not None:
        raise DeliveryError("THEN_REFUSED", f"a following job was refused: {reason}", permanent=True)


def _size_of(value: Any, error_type: str, noun: str, most: int) -> int:
    """Return the bytes of a value as JSON; raises DeliveryError for a value of at most `most` that cannot be stored."""
    try:
        return len(_json_of(value, most))  # ASCII
    except ValueError as error:
        raise DeliveryError(error_type, f"{noun} cannot be stored: {error}", permanent=True) from None


def _json_of(value: Any, most: int) -> str:
    """Write a value as JSON; raises ValueError for a value that cannot be stored, such as NaN.

    Callers refuse more than `most` bytes, so the digits of such a value, whose check blocks the loop, do not matter.
    """
    text = json.dumps(value, allow_nan=False)
    if is_unstorable(value, text):
        raise ValueError("a text has a NUL character or half of a surrogate pair")
    if len(text) <= most and _MAY_HAVE_LONG_INTEGER.search(text):
        json.loads(text, parse_int=_check_digits)
    return text


def _check_digits(digits: str) -> None:
    # Read from the database it would be a floating-point number, silently another one.
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS} digits")


def _is_storable(value: Any) -> bool:
    try:
        _json_of(value, MAX_OPTIONS_BYTES)
    except ValueError:
        return False
    return True


def _bounded(value: Any, maximum: int) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return min(max(0, value), maximum)


def _error(told: Any, *, permanent: bool, again_ms: int | None) -> DeliveryError:
    """Return the error that a process reports, in a form that can be stored: its options count the retries."""
    told = told if isinstance(told, dict) else {}
    extra: dict[str, object] = {}
    if isinstance(told.get("traceback"), str):
        extra["traceback"] = storable(told["traceback"])[-MAX_TRACEBACK_CHARACTERS:]
    if isinstance(told.get("causes"), list):
        extra["causes"] = [storable(str(each))[:MAX_TYPE_CHARACTERS] for each in told["causes"][:MAX_CAUSES]]
    extra["category"] = _category_of(told, ErrorCategory.FATAL if permanent else ErrorCategory.RETRYABLE)
    options = told.get("options")
    if isinstance(options, dict) and len(json.dumps(options)) <= MAX_OPTIONS_BYTES:
        extra["options"] = {name: value for name, value in options.items() if _is_storable([name, value])}
    type_ = storable(str(told.get("type") or "UNKNOWN"))[:MAX_TYPE_CHARACTERS]
    message = storable(str(told.get("message") or ""))
    return DeliveryError(type_, message, permanent=permanent, again_ms=again_ms, extra=extra)


def _category_of(told: Mapping[str, Any], by_kind: ErrorCategory) -> str:
    """Return the category that the process reports, or the category of the kind of outcome."""
    reported = told.get("category")
    return str(reported) if isinstance(reported, str) and reported in _REPORTED else by_kind.value
