"""Request ids: X-Request-ID, taken from the client when it is harmless, else generated; every answer has it."""

import logging
import re
import time

from flask import Flask, Response, g, has_request_context, request

from app.kernel import ids
from app.kernel.log import IDS

log = logging.getLogger(__name__)

HEADER = "X-Request-ID"
ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,128}")
MOST_OF_PATH = 200  # characters in a line
# Of those the log of refusals tells, in so few lines that nobody can fill a disk with them.
_REFUSED = frozenset({401, 403, 429})
# Asked every few seconds, of each process.
_UNTOLD = ("/health", "/metrics")


def register(app: Flask) -> None:
    """Give each request its id, and log each answer: at DEBUG where there is no key or nothing to tell."""
    app.before_request(_begin)
    app.after_request(_end)
    app.teardown_request(_forget)


def current_request_id() -> str:
    """Return the id of the current request; a new one outside a request."""
    if not has_request_context():
        return ids.request_id()
    if "request_id" not in g:
        given = request.headers.get(HEADER, "")
        g.request_id = given if ACCEPTED.fullmatch(given) else ids.request_id()
    return str(g.request_id)


def note_ids(**ids_: str) -> None:
    """Add ids to the lines that tell of the current request from now on."""
    IDS.set({**IDS.get(), **ids_})


def _begin() -> None:
    g.began_at = time.perf_counter()
    of_path = request.view_args or {}
    named = {name: str(value)[:MOST_OF_PATH] for name, value in of_path.items() if name.endswith("_id")}
    IDS.set({"request_id": current_request_id(), **named})


def _end(response: Response) -> Response:
    response.headers[HEADER] = current_request_id()
    level = _level(response.status_code)
    if log.isEnabledFor(level):
        milliseconds = (time.perf_counter() - g.get("began_at", time.perf_counter())) * 1000
        line = {
            "method": request.method,
            "path": request.path[:MOST_OF_PATH],
            "status_code": response.status_code,
            "duration_ms": round(milliseconds, 1),
        }
        named = " ".join(f"{name}={value}" for name, value in IDS.get().items())
        log.log(level, "%s %s: %d in %s ms, %s", *line.values(), named, extra=line)
    return response


def _forget(_error: BaseException | None) -> None:
    IDS.set({})


def _level(status: int) -> int:
    is_untold = "api_key" not in g or status in _REFUSED or request.path.startswith(_UNTOLD)
    return logging.DEBUG if is_untold else logging.INFO
