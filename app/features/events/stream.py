"""Stream of one client: its subscription, its position, and the bytes not sent yet."""

import contextlib
import socket
from collections.abc import Iterable
from typing import NamedTuple

from app.features.events.event import Event, EventFilter, EventPosition
from app.web.http.suspension import Over

MAX_BYTES = 65_536  # of a stream in memory; more is read when the client has received some
SEND_BUFFER_BYTES = 65_536  # the kernel's
TAKE_SECONDS = 30.0  # for a client to receive the pending bytes
MAX_READ_BYTES = 65_536


class Subscription(NamedTuple):
    """Subscription of a client: filter, position and API key."""

    wanted: EventFilter
    after: EventPosition
    key_id: str


class Stream:
    """Connection to a client; used by the thread of the streams only, never blocks."""

    def __init__(
        self, subscription: Subscription, sock: socket.socket, over: Over, *, chunked: bool, ends_at: float
    ) -> None:
        self.wanted = subscription.wanted
        self.position = subscription.after
        self.key_id = subscription.key_id
        self.sock = sock
        self.ends_at = ends_at
        self.is_ending = False
        self.waits_for_room = False  # rather than for events
        self._over = over
        self._chunked = chunked
        self._unsent = bytearray()
        self._put_bytes = 0
        self._sent_bytes = 0
        self._mark: tuple[int, float] | None = None  # bytes to send until an instant
        self._read_bytes = 0
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)

    @property
    def has_room(self) -> bool:
        """Return whether more bytes may be added."""
        return len(self._unsent) < MAX_BYTES and not self.is_ending

    @property
    def is_drained(self) -> bool:
        """Return whether the kernel has all bytes."""
        return not self._unsent

    def put_events(self, events: Iterable[tuple[Event, bytes]], up_to: EventPosition) -> bool:
        """Add the events of a page that pass the filter, and move to its end; returns whether all had room."""
        for event, written in events:
            if not self.has_room:
                with contextlib.suppress(OSError):  # a lost client is noticed when the rest is sent
                    self._send()
            self.waits_for_room = not self.has_room
            if self.waits_for_room:
                return False
            if self.wanted.wants(event):
                self.put(written)
                self.position = event.position
        self.waits_for_room = False
        self.position = up_to
        return True

    def put(self, data: bytes) -> None:
        framed = b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data
        self._unsent += framed
        self._put_bytes += len(framed)

    def end(self) -> None:
        """Add the end of the stream; nothing follows it."""
        if not self.is_ending:
            self.is_ending = True
            self._unsent += b"0\r\n\r\n" if self._chunked else b""

    def send(self, now: float) -> bool:
        """Send as much as the kernel accepts; returns whether the client is connected and receives in time."""
        try:
            self._send()
        except OSError:
            return False
        if self._mark is not None and self._sent_bytes < self._mark[0]:
            return now < self._mark[1]
        self._mark = (self._put_bytes, now + TAKE_SECONDS) if self._unsent else None
        return True

    def _send(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._unsent:
                sent = self.sock.send(memoryview(self._unsent)[:MAX_BYTES])
                del self._unsent[:sent]
                self._sent_bytes += sent

    def receive(self) -> bool:
        """Discard bytes from the client; returns whether it is still connected."""
        try:
            received = len(self.sock.recv(MAX_READ_BYTES))
        except BlockingIOError:
            return True
        except OSError:
            return False
        self._read_bytes += received
        return received > 0 and self._read_bytes < MAX_READ_BYTES

    def give_back(self) -> None:
        """Return the connection to the main thread."""
        self._over(self.is_ending and self.is_drained)
