"""Outcome of an HTTP request: what an answer, or the lack of one, means for the attempt."""

import os
import re
import time
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import responses
from typing import Any

from actors.dispatch.http1.answer import AnswerError
from actors.dispatch.send_progress import Progress
from app.catalog.retry_policy import MAX_RETRY_AFTER_MS
from app.queue.executions.execution_model import DeliveryError

# With 409 a receiver says that another attempt is still at work: of the three it alone tells nothing of the host.
_MAY_ASK_FOR_TIME = frozenset({409, 429, 503})


def judge(status: int, retry_after: str | None, body: str, expected: list[int]) -> dict[str, Any]:
    """Make the output of an answer that was expected; raises DeliveryError for any other."""
    if status in expected:
        return {"status_code": status, "body": body}
    name = f"{status} {responses.get(status, '')}".rstrip()
    raise DeliveryError(
        "HTTP_ERROR",
        f"the endpoint answered {name}; expected: {', '.join(map(str, expected))}",
        permanent=status == HTTPStatus.GONE,
        retry_after_ms=retry_after_ms(retry_after, time.time()) if status in _MAY_ASK_FOR_TIME else None,
        extra={"status_code": status, "body": body},
    )


def retry_after_ms(value: str | None, now: float) -> int | None:
    """Read a Retry-After header, seconds or a date; `now` is a Unix time. None when there is none."""
    if value is None:
        return None
    if re.fullmatch(r"\s*[0-9]{1,9}\s*", value):
        seconds = float(value)
    else:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return min(round(seconds * 1000), MAX_RETRY_AFTER_MS) if seconds > 0 else None


def failure(error: Exception, progress: Progress) -> DeliveryError:
    """Explain why there was no answer."""
    if isinstance(error, TimeoutError):
        return progress.timed_out("no complete answer came")
    return DeliveryError("CONNECTION_ERROR", _message(error), may_have_been_delivered=progress.is_sent)


def _message(error: Exception) -> str:
    if isinstance(error, AnswerError):
        return str(error)
    if isinstance(error, OSError) and error.errno:
        return f"the connection broke: {os.strerror(error.errno)}"
    # The text of an unforeseen exception may hold anything, also a secret: its type must do.
    return f"the delivery failed: {type(error).__name__}"
