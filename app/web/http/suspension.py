"""Answers that keep their connection without a thread: suspended requests and streams.

A view returns `Suspended` or `Streamed` like any other response. The gunicorn worker
(`app.web.server.gunicorn_worker`) finds the response in the environ and keeps the connection. When the wait ends,
another thread runs the view again in the same request context, and answers.
"""

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from flask import Flask, Request, Response, current_app, g, request
from flask.ctx import RequestContext

from app.kernel.db import deadline
from app.kernel.errors import RateLimitedError, UnavailableError
from app.kernel.function_types import Call
from app.kernel.log import IDS
from app.queue.reading.waits import Waits
from app.web.http.authentication import verify_again
from app.web.http.request_log import count_given_up
from app.web.http.unproxied import current_request
from app.web.services import services

SLOTS = "task_executor.slots"  # key of the environ, if connections can be kept: the slots and the connection
KEPT = "task_executor.kept"  # key of the environ: the answer that keeps its connection


class Slots:
    """Kept connections, limited in all and per API key; thread-safe."""

    def __init__(self, most: int, most_of_key: int) -> None:
        self._most = most
        self._most_of_key = most_of_key
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()  # slots by key, without zeros

    def take(self, key_id: str) -> None:
        """Take a slot for a key; raises UnavailableError if none is free, RateLimitedError if the key has too many."""
        with self._lock:
            if self._held.total() >= self._most:
                raise UnavailableError(
                    "Too many requests and streams are open (TE_WEB_WAITING). Retry later, or leave out `wait`."
                )
            if self._held[key_id] >= self._most_of_key:
                raise RateLimitedError(
                    "Too many requests and streams of this API key are open (TE_WEB_WAITING_PER_KEY). End one, or leave"
                    " out `wait`."
                )
            self._held[key_id] += 1

    def close(self) -> None:
        with self._lock:
            self._most = 0

    def give_back(self, key_id: str) -> None:
        with self._lock:
            self._held[key_id] -= 1
            if not self._held[key_id]:
                del self._held[key_id]


class Suspended(Response):
    """Answer that suspends a request until an execution ends; nothing is sent or logged until the view runs again."""

    def __init__(self, waits: Waits, execution_id: str, seconds: float) -> None:
        super().__init__()
        self._wait = (waits, execution_id, seconds)
        self._app: Flask = current_app._get_current_object()  # type: ignore[attr-defined] # noqa: SLF001 - as documented
        self._request: Request = current_request()
        self._saved, self._ids, self._since = dict(vars(g)), IDS.get(), time.perf_counter()
        g.is_suspended = True

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:  # noqa: ARG002 - WSGI's interface
        """Put this into the environ instead of answering."""
        environ[KEPT] = self
        return ()

    def begin(self, over: Call) -> Call:
        """Begin the wait; its end calls `over` on any thread. Returns a function that cancels the wait."""
        waits, execution_id, seconds = self._wait
        return waits.begin(execution_id, seconds, over)

    def resume(self, start_response: Any) -> Iterable[bytes]:
        app, environ = self._app, self._request.environ
        with RequestContext(app, environ, request=self._request):
            vars(g).update(self._saved)
            IDS.set(self._ids)
            g.has_waited = True
            g.counted_from += time.perf_counter() - self._since  # metrics exclude the wait
            deadline.begin(services().settings.request_timeout_seconds)
            try:
                verify_again()
                answer = app.dispatch_request()
            except Exception as error:  # noqa: BLE001 - as Flask does: each has its handler
                answer = app.handle_user_exception(error)
            response = app.finalize_request(answer)
        parts: Iterable[bytes] = response(environ, start_response)
        return parts

    def give_up(self) -> None:
        """Count the request, whose client has disconnected."""
        with RequestContext(self._app, self._request.environ, request=self._request):
            count_given_up()


Over = Callable[[bool], object]
"""Returns a connection to the worker, from any thread; the argument is true if everything was sent."""


class StreamSender(Protocol):
    """Thread that sends a process's streams."""

    def open(self, asked: Any, sock: socket.socket, over: Over, *, chunked: bool) -> None:
        """Begin to send to a connection; the end calls `over`."""

    def end_all(self) -> None:
        """End all streams, also streams opened later."""


class Streamed(Response):
    """Answer that continues as a stream once its first part is sent."""

    def __init__(self, sender: StreamSender, asked: Any, first: bytes, content_type: str, headers: Any) -> None:
        super().__init__(iter([first]), content_type=content_type, headers=headers)
        self.sender = sender
        self.asked = asked

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        """Answer with the first part and put this into the environ."""
        environ[KEPT] = self
        return super().__call__(environ, start_response)


def has_waited() -> bool:
    """Return whether the current request was suspended and is now resumed."""
    return bool(g.get("has_waited", False))


def is_possible() -> bool:
    """Return whether the connection of the current request can be kept."""
    return SLOTS in request.environ


def can_wait() -> bool:
    """Return whether the current request may wait: has a slot, has waited, or connections cannot be kept."""
    try:
        take_slot()
    except (UnavailableError, RateLimitedError):
        return False
    return True


def take_slot() -> None:
    """Take a slot for the current request until its end, unless it has waited or connections cannot be kept.

    Raises UnavailableError if too many requests wait in this process, RateLimitedError if too many of this key.
    """
    if is_possible() and not has_waited():
        slots, held = request.environ[SLOTS]
        slots.take(g.api_key.key_id)
        held.callback(slots.give_back, g.api_key.key_id)
