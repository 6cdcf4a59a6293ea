"""Answers to requests that are refused before the application is called."""

import json
import random
from http import HTTPStatus

from app.kernel import ids
from app.kernel.errors import UnavailableError
from app.web.http.error_envelope import envelope, http_error
from app.web.http.request_log import ACCEPTED

_REQUEST_ID = b"\r\nx-request-id:"
_MAX_REQUEST_ID_LINE = 300  # bytes: the longest accepted id, and blanks around it


def busy(head: bytes) -> bytes:
    """Return the 503 answer to a request that begins with `head`."""
    message = "The server is busy; the request was not processed. Retry later."
    body = envelope(UnavailableError.code, message, request_id_of(head), retryable=True)
    # Random, so that clients refused together do not return together.
    return _answer(503, body, f"Retry-After: {random.randint(1, 3)}")


def refusal(status: int, request_id: str) -> bytes:
    """Return the answer with an error status."""
    code, message = http_error(status)
    return _answer(status, envelope(code, message, request_id))


def request_id_of(head: bytes) -> str:
    """Return the request id in a head, or a new id.

    Searches without regular expressions: on a hostile head full of blanks they can take seconds, and this runs on the
    main thread of a web process.
    """
    found = head.lower().find(_REQUEST_ID)
    start = found + len(_REQUEST_ID)
    line, end, _ = head[start : start + _MAX_REQUEST_ID_LINE].partition(b"\r\n")
    request_id = line.strip(b" \t").decode("latin-1") if found >= 0 and end else ""
    return request_id if ACCEPTED.fullmatch(request_id) else ids.request_id()


def _answer(status: int, content: dict[str, dict[str, str]], *more: str) -> bytes:
    body = json.dumps(content).encode()
    lines = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Connection: close",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        f"X-Request-ID: {content['error']['request_id']}",
        *more,
    )
    return "\r\n".join((*lines, "", "")).encode() + body
