"""Outlet: the only way out for what a library sends on a thread, within the time that an attempt has.

Apprise opens connections deep inside, each service in its own way, and a thread cannot be ended from outside. So the
modules that it opens them with are given it by us (`web`, `mail`), and ask the outlet of their thread: that looks names
up on the loop, checks each address, and breaks what is open off when the time is up.
"""

import asyncio
import concurrent.futures
import contextlib
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from actors.dispatch.base import MAX_BODY_BYTES, SCRUB_MARGIN_BYTES, Network
from actors.dispatch.connector import ADDRESSES_AT_ONCE, RECEIVE_BUFFER_BYTES
from actors.dispatch.egress import EgressRefusedError
from app.queue.executions.execution_model import NotSentError

T = TypeVar("T")
MOST_TEXT = MAX_BODY_BYTES + SCRUB_MARGIN_BYTES
# A thread has one connection at a time, and at most one more while it changes to another.
_MOST_OPEN = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said last: a status of HTTP or SMTP, and its words."""

    status: int
    text: str = ""
    retry_after: str | None = None


class Outlet:
    """Opens the connections of one message to one channel; `close` belongs to the loop, all else to the thread."""

    def __init__(
        self, network: Network, loop: asyncio.AbstractEventLoop, seconds: float, begin_sending: Callable[[], None]
    ) -> None:
        self._network = network
        self._loop = loop
        self._until = time.monotonic() + seconds
        self._begin_sending = begin_sending
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self.answer: Answer | None = None
        self.unreached: tuple[str, OSError] | None = None
        """The server that no connection could be made to last, and why."""
        self.is_tried = False
        """Whether a connection was asked for at all."""
        self.is_hasty = False
        """Whether a service asked to wait for longer than there was time."""
        self.withdrawn: NotSentError | None = None
        """Why nothing may be sent any more; libraries swallow what is raised in them."""

    def left(self) -> float:
        """Return the seconds that are left; raises TimeoutError when there are none."""
        seconds = self._until - time.monotonic()
        if seconds <= 0 or self._closed.is_set():
            raise TimeoutError("the time of the attempt is up")
        return seconds

    @property
    def is_over(self) -> bool:
        """Whether the time of the attempt is up; a socket may have noticed that first."""
        return time.monotonic() >= self._until

    def sleep(self, seconds: float) -> None:
        """Wait, as services ask for between messages; raises TimeoutError when that is longer than what is left."""
        self.is_hasty = seconds >= self.left()
        if self.is_hasty or self._closed.wait(max(0.0, seconds)):
            raise TimeoutError("the service asks to wait for longer than the attempt may take")

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect to the first address that answers, of those that may be reached; raises OSError."""
        self.is_tried = True
        with self.reaching(host, port):
            sock = self._connect(host.strip("[]"), port)
        try:
            self._on_loop(self._begin())
        except NotSentError as error:
            self.withdrawn = error
            sock.close()
            raise ConnectionAbortedError("nothing may be sent any more") from None
        return sock

    @contextlib.contextmanager
    def reaching(self, host: str, port: int) -> Iterator[None]:
        """Note what keeps a server from being reached, also after it was connected to: TLS."""
        try:
            yield
        except OSError as error:
            self.unreached = f"{host}:{port}", error
            raise
        self.unreached = None

    def close(self) -> None:
        """Break off what is open, and let nothing begin any more: the thread then ends by itself."""
        with self._lock:
            self._closed.set()
            for sock in self._open:
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)
                sock.close()
            self._open.clear()

    def _connect(self, host: str, port: int) -> socket.socket:
        found = self._on_loop(self._network.resolver.look_up(host, port))
        fault = OSError()
        for address in self._network.guard.permitted(found)[:ADDRESSES_AT_ONCE]:
            sock = self._network.guard.open_socket(address)
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
                sock.settimeout(self.left())
                self._note(sock)
                sock.connect(address[4])
            except OSError as error:
                sock.close()
                fault = error
            else:
                return sock
        raise fault

    async def _begin(self) -> None:
        self._begin_sending()

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        done = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return done.result(self.left())
        except concurrent.futures.TimeoutError:
            done.cancel()
            raise TimeoutError("the time of the attempt is up") from None

    def _note(self, sock: socket.socket) -> None:
        # TLS takes a socket over into another object; a duplicate still leads to the same connection.
        with self._lock:
            if self._closed.is_set():
                raise TimeoutError("the time of the attempt is up")
            self._open.append(sock.dup())
            while len(self._open) > _MOST_OPEN:
                # A message to a thousand chats is as many connections, which are not closed while this one is open.
                self._open.pop(0).close()


CURRENT: ContextVar[Outlet] = ContextVar("te_outlet")


def current() -> Outlet:
    """Return the outlet of this thread; raises EgressRefusedError where there is none."""
    outlet = CURRENT.get(None)
    if outlet is None:
        raise EgressRefusedError("")
    return outlet
