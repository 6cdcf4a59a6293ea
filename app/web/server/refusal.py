"""Answers to requests that the application never sees."""

import json
import random
from http import HTTPStatus

from app.kernel import ids
from app.kernel.errors import UnavailableError
from app.web.http.error_envelope import envelope, http_error
from app.web.http.request_ids import ACCEPTED

_REQUEST_ID = b"\r\nx-request-id:"
_MAX_REQUEST_ID_LINE = 300  # bytes: the longest id that is accepted, and blanks around it


def busy(head: bytes) -> bytes:
    """Return the answer to a request that begins with `head` and cannot be served now."""
    message = "The server is busy; nothing was done, try again."
    body = envelope(UnavailableError.code, message, request_id_of(head), retryable=True)
    # Spread, so that those that were refused together do not come back together.
    return _answer(503, body, f"Retry-After: {random.randint(1, 3)}")


def refusal(status: int, request_id: str) -> bytes:
    """Return the answer to a request that is not to be served, of an error that Werkzeug knows."""
    code, message = http_error(status)
    return _answer(status, envelope(code, message, request_id))


def request_id_of(head: bytes) -> str:
    """Return the id that a request has brought, or a new one.

    By plain search: a regular expression over a head that a stranger has filled with blanks may take seconds, and this
    runs on the main thread of a web process.
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
