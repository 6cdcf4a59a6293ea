"""Answers to requests that are refused before the application is called."""

import json
import random
from http import HTTPStatus

from app.kernel import ids
from app.kernel.errors import UnavailableError
from app.web.http.error_envelope import envelope, http_error
from app.web.http.event_stream import EVENT_STREAM, come_again
from app.web.http.request_log import ACCEPTED

_REQUEST_ID = b"\r\nx-request-id:"
_ACCEPT = b"\r\naccept:"
_MAX_LINE = 300  # bytes: the longest accepted request id, and blanks around it


def busy(head: bytes) -> bytes:
    """Return the 503 answer to a request that begins with `head`; an event stream ends, and its client returns."""
    if head.startswith(b"GET ") and EVENT_STREAM.encode() in _line(head, _ACCEPT):
        return _response(200, EVENT_STREAM, come_again(1), f"X-Request-ID: {request_id_of(head)}")
    message = "The server is busy; the request was not processed. Retry later."
    body = envelope(UnavailableError.code, message, request_id_of(head), retryable=True)
    # Random, so that clients refused together do not return together.
    return _answer(503, body, f"Retry-After: {random.randint(1, 3)}")


def refusal(status: int, request_id: str) -> bytes:
    code, message = http_error(status)
    return _answer(status, envelope(code, message, request_id))


def request_id_of(head: bytes) -> str:
    """Return the request id in a head, or a new id.

    Searches without regular expressions: on a hostile head full of blanks they can take seconds, and this runs on the
    main thread of a web process.
    """
    request_id = _line(head, _REQUEST_ID).strip(b" \t").decode("latin-1")
    return request_id if ACCEPTED.fullmatch(request_id) else ids.request_id()


def _line(head: bytes, name: bytes) -> bytes:
    """Return the value of a header of up to _MAX_LINE bytes; empty if it is missing or longer."""
    found = head.lower().find(name)
    start = found + len(name)
    line, end, _ = head[start : start + _MAX_LINE].partition(b"\r\n")
    return line if found >= 0 and end else b""


def _answer(status: int, content: dict[str, dict[str, str]], *more: str) -> bytes:
    request_id = f"X-Request-ID: {content['error']['request_id']}"
    return _response(status, "application/json", json.dumps(content).encode(), request_id, *more)


def _response(status: int, content_type: str, body: bytes, *more: str) -> bytes:
    lines = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        "Connection: close",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        *more,
    )
    return "\r\n".join((*lines, "", "")).encode() + body
