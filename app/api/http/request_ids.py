"""Request ids: X-Request-ID, taken from the client when it is harmless, else generated; every answer has it."""

import logging
import re
import time

from flask import Flask, Response, g, has_request_context, request

from app import ids

log = logging.getLogger(__name__)

HEADER = "X-Request-ID"
ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,128}")


def register(app: Flask) -> None:
    """Give each request its id, and log each answer at DEBUG."""
    app.before_request(_begin)
    app.after_request(_end)


def current_request_id() -> str:
    """Return the id of the current request; a new one outside a request."""
    if not has_request_context():
        return ids.request_id()
    if "request_id" not in g:
        given = request.headers.get(HEADER, "")
        g.request_id = given if ACCEPTED.fullmatch(given) else ids.request_id()
    return str(g.request_id)


def note_ids(**ids_: str) -> None:
    """Add ids to the line that tells of the current request, if one does."""
    if log.isEnabledFor(logging.DEBUG):
        g.noted_ids = {**g.get("noted_ids", {}), **ids_}


def _begin() -> None:
    g.began_at = time.perf_counter()


def _end(response: Response) -> Response:
    response.headers[HEADER] = current_request_id()
    if log.isEnabledFor(logging.DEBUG):
        milliseconds = (time.perf_counter() - g.get("began_at", time.perf_counter())) * 1000
        line = {
            "request_id": current_request_id(),
            "method": request.method,
            "path": request.path,
            "status_code": response.status_code,
            "duration_ms": round(milliseconds, 1),
        }
        log.debug("%s %s %s: %d in %s ms", *line.values(), extra=line | g.get("noted_ids", {}))
    return response
