"""Requests that wait without a thread, and are answered by another one once their wait is over.

A view leaves by `Parked`, so that nothing is answered, counted or logged yet. Our gunicorn worker keeps the
connection (`app.web.server.suspended`) and begins the wait. Its end runs the view again, in the same request, and
that makes the answer.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from flask import Flask, Request, current_app, g, request
from flask.ctx import RequestContext

from app.kernel.errors import RateLimitedError, UnavailableError
from app.web.http.requests_counted import count_given_up
from app.web.http.slots import Full, Place

PLACE = "task_executor.place"  # in the environ, where connections can wait: what the request has of their places
EXTENSION = "task_executor_before_again"

StartResponse = Any
Begin = Callable[[Callable[[], object]], Callable[[], object]]
"""Begins a wait: it is given what the end of the wait calls, from any thread, and returns what gives the wait up."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request that waits: what begins its wait, what makes its answer, and what counts it when its client goes."""

    begin: Begin
    again: Callable[[StartResponse], Iterable[bytes]]
    given_up: Callable[[], None]


class Parked(BaseException):
    """Leaves a view whose request waits; no error, so nothing on the way catches it."""

    def __init__(self, waiting: Waiting) -> None:
        super().__init__()
        self.waiting = waiting
        self.place: Place | None = None  # of its connection


def register(app: Flask, *before_again: Callable[[], object]) -> None:
    """Have these run before a view is run again: what was checked before the wait need not hold any more."""
    app.extensions[EXTENSION] = before_again


def can_wait() -> bool:
    """Return whether the current request may wait, or has; where no connection can be kept, its thread does."""
    return _take_place() is None


def check_place() -> None:
    """Raise UnavailableError where too many requests wait already, RateLimitedError where too many of this key."""
    full = _take_place()
    if full is Full.FOR_KEY:
        raise RateLimitedError(
            "As many requests and streams of this API key wait as may in this process; end one, or ask without waiting."
        )
    if full is Full.FOR_ALL:
        raise UnavailableError("As many requests wait as may wait in this process; try again, or ask without waiting.")


def _take_place() -> Full | None:
    place: Place | None = request.environ.get(PLACE)
    return None if place is None or g.get("has_waited", False) else place.take(g.api_key.key_id)


def wait(begin: Begin, on_thread: Callable[[], object]) -> bool:
    """Wait once in a request; returns whether it has waited just now, on this thread.

    Where the connection can be kept the view is left, and run again afterwards: then this returns at once.
    """
    if g.get("has_waited", False):
        return False
    g.has_waited = True
    if PLACE not in request.environ:
        on_thread()
        return True
    app: Flask = current_app._get_current_object()  # type: ignore[attr-defined] # noqa: SLF001 - Flask's documented way
    raise Parked(_waiting(app, request._get_current_object(), begin))  # type: ignore[attr-defined] # noqa: SLF001


def _waiting(app: Flask, of: Request, begin: Begin) -> Waiting:
    saved, since = dict(vars(g)), time.perf_counter()

    def context() -> RequestContext:
        return RequestContext(app, of.environ, request=of)

    def again(start_response: StartResponse) -> Iterable[bytes]:
        with context():
            vars(g).update(saved)
            # The wait is no work of ours.
            g.counted_from = saved["counted_from"] + time.perf_counter() - since
            try:
                for check in app.extensions[EXTENSION]:
                    check()
                answer = app.dispatch_request()
            except Exception as error:  # noqa: BLE001 - as Flask does: each has its handler
                answer = app.handle_user_exception(error)
            response = app.finalize_request(answer)
        parts: Iterable[bytes] = response(of.environ, start_response)
        return parts

    def given_up() -> None:
        with context():
            vars(g).update(saved)
            count_given_up()

    return Waiting(begin, again, given_up)


STREAM = "task_executor.stream"  # in the environ, where an answer goes on as a stream

OpenStream = Callable[..., None]
"""Takes the connection of an answer whose head was sent: the socket, what gives it back, whether it is `chunked`."""


class Streaming(BaseException):
    """Leaves the handling of a request whose answer goes on without a thread; no error."""

    def __init__(self, open_: OpenStream, place: Place, *, chunked: bool) -> None:
        super().__init__()
        self.open = open_
        self.place = place
        self.chunked = chunked


def go_on(open_: OpenStream) -> None:
    """Let the answer to the current request, all of which is sent first, go on as a stream."""
    request.environ[STREAM] = open_


def can_stream() -> bool:
    """Return whether the connection of the current request can be kept for a stream."""
    return PLACE in request.environ and request.method == "GET"
