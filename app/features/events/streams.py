"""Streams: one thread that sends events to all subscribed clients of a web process; each page is read once for all."""

import contextlib
import logging
import random
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable
from operator import attrgetter

from app.features.events import store as events_store
from app.features.events.event import EventPosition, heartbeat
from app.features.events.stream import Stream, Subscription
from app.kernel.access.key_ring import KeyRing
from app.kernel.db import Database
from app.kernel.errors import TaskExecutorError
from app.kernel.formats import EPOCH
from app.kernel.threads import BackgroundThread
from app.queue.reading.horizon import horizon
from app.web.http.suspension import Over

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
TROUBLE_SECONDS = 2.0
HEARTBEAT_SECONDS = 15.0
KEYS_SECONDS = 5.0
LIFETIME_SECONDS = (600.0, 900.0)  # spread, so that clients do not come back together
LAST_SECONDS = 2.0  # for the ends of streams when the process stops
MAX_READS = 20  # in one poll; streams far behind wait for the next poll


def serve(database: Database, streams: Iterable[Stream]) -> bool:
    """Read new events for each stream that has room; returns whether a stream has more to read.

    All streams without a backlog share one position, and so one statement.
    """
    # The latest position first: streams that are up to date do not wait for streams that are far behind.
    waiting: dict[EventPosition, list[Stream]] = {}
    for stream in sorted(streams, key=attrgetter("position.at"), reverse=True):
        if stream.has_room:
            waiting.setdefault(stream.position, []).append(stream)
    until = horizon(database) if waiting else EPOCH
    for _ in range(MAX_READS):
        if not waiting:
            return False
        position = next(iter(waiting))
        group = waiting.pop(position)
        groups = frozenset().union(*(stream.wanted.groups for stream in group))
        labelled = any(stream.wanted.labels for stream in group)
        page = events_store.read(database, position, until, groups, labelled=labelled)
        written = [(event, event.message()) for event in page.events]
        with_room = [stream for stream in group if stream.put_events(written, page.up_to)]
        if not page.is_end and with_room:
            # At the end of the order, so that each position has its turn.
            waiting.setdefault(page.up_to, []).extend(with_room)
    return bool(waiting)


class Streams(BackgroundThread):
    """Sends events to clients without blocking; at its end a connection returns to the main thread."""

    def __init__(
        self, database: Database, keys: KeyRing, *, poll_seconds: float = POLL_SECONDS, name: str = "te-streams"
    ) -> None:
        super().__init__(name)
        self._poll_seconds = poll_seconds
        self._database = database
        self._keys = keys
        self._lock = threading.Lock()
        self._new: deque[Stream] = deque()
        self._streams: dict[Stream, int] = {}  # with the selector events that each waits for
        self._poll_at = self._heartbeat_at = self._keys_at = 0.0

    def open(self, subscription: Subscription, sock: socket.socket, over: Over, *, chunked: bool) -> None:
        """Start sending to a client after the head of its response; `over` is called at the end."""
        ends_at = time.monotonic() + random.uniform(*LIFETIME_SECONDS)
        stream = Stream(subscription, sock, over, chunked=chunked, ends_at=ends_at)
        with self._lock:
            if not self.stopping.is_set():
                self.ensure_started()
                self._new.append(stream)
                self.interrupt()
                return
        stream.end()
        stream.send(time.monotonic())
        stream.give_back()

    def start(self) -> None:
        """Start the thread with a wake-up socket of this process, not one copied by a fork."""
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        super().start()

    def end_all(self) -> None:
        """Ask the thread to end all streams; returns at once."""
        with self._lock:
            self.stopping.set()
        self.interrupt()

    def interrupt(self) -> None:
        with contextlib.suppress(OSError, AttributeError):  # it is awake, or was never started
            self._writer.send(b"1")

    def run(self) -> None:
        with self._reader, self._writer, selectors.DefaultSelector() as selector:
            selector.register(self._reader, selectors.EVENT_READ)
            while not self.stopping.is_set():
                try:
                    self._step(selector)
                except Exception:
                    log.exception("unexpected error in %s; continuing", self.name)
                    self.stopping.wait(TROUBLE_SECONDS)
            self._finish(selector)

    def heartbeat(self, stream: Stream) -> bytes:
        """Return the message that keeps an idle connection open."""
        return heartbeat(stream.position)

    def feed(self, streams: Iterable[Stream]) -> bool:
        """Add new events to the streams; returns whether a stream has more to read."""
        return serve(self._database, streams)

    def _step(self, selector: selectors.BaseSelector) -> None:
        self._take_new(selector)
        rest = max(0.0, self._poll_at - time.monotonic()) if self._streams else None
        for ready, events in selector.select(rest):
            stream = ready.data
            if stream is None:
                self._reader.recv(4096)
            elif events & selectors.EVENT_READ and not stream.receive():
                self._drop(selector, stream)
            else:
                self._send(selector, stream, time.monotonic())
        if self._streams and time.monotonic() >= self._poll_at:
            self._poll(selector)

    def _take_new(self, selector: selectors.BaseSelector) -> None:
        while self._new:
            stream = self._new.popleft()
            selector.register(stream.sock, selectors.EVENT_READ, stream)
            self._streams[stream] = selectors.EVENT_READ
            self._poll_at = 0.0

    def _poll(self, selector: selectors.BaseSelector) -> None:
        """Read new events; then drop clients that receive nothing and streams of invalid keys."""
        now = time.monotonic()
        try:
            if now >= self._keys_at:
                self._keys_at = now + KEYS_SECONDS
                valid = self._keys.ids()
                for stream in self._streams:
                    if stream.key_id not in valid:
                        stream.end()
            there_is_more = self.feed(self._streams)
            self._poll_at = now if there_is_more else now + self._poll_seconds
        except TaskExecutorError as error:
            log.debug("cannot read events: %s", error.explained)
            self._poll_at = time.monotonic() + TROUBLE_SECONDS
        is_heartbeat_due = now >= self._heartbeat_at
        self._heartbeat_at = now + HEARTBEAT_SECONDS if is_heartbeat_due else self._heartbeat_at
        for stream in tuple(self._streams):
            if now >= stream.ends_at:
                stream.end()
            elif is_heartbeat_due and stream.is_drained:
                stream.put(self.heartbeat(stream))
            self._send(selector, stream, now)

    def _send(self, selector: selectors.BaseSelector, stream: Stream, now: float) -> None:
        if not stream.send(now):
            self._drop(selector, stream)
        elif stream.is_ending and stream.is_drained:
            self._give_back(selector, stream)
        else:
            if stream.waits_for_room and stream.is_drained:
                # Otherwise a client would get at most 64 KiB between two polls.
                stream.waits_for_room = False
                self._poll_at = 0.0
            wanted = selectors.EVENT_READ | (0 if stream.is_drained else selectors.EVENT_WRITE)
            if self._streams[stream] != wanted:
                self._streams[stream] = wanted
                selector.modify(stream.sock, wanted, stream)

    def _drop(self, selector: selectors.BaseSelector, stream: Stream) -> None:
        if not stream.is_drained:
            log.info("cut off a stream of key %s: its client is gone or receives too slowly", stream.key_id)
        self._give_back(selector, stream)

    def _give_back(self, selector: selectors.BaseSelector, stream: Stream) -> None:
        del self._streams[stream]
        selector.unregister(stream.sock)
        stream.give_back()

    def _finish(self, selector: selectors.BaseSelector) -> None:
        with self._lock:
            self._take_new(selector)
        until = time.monotonic() + LAST_SECONDS
        for stream in tuple(self._streams):
            stream.end()
            self._send(selector, stream, time.monotonic())
        while self._streams and time.monotonic() < until:
            for ready, _ in selector.select(0.1):
                if ready.data in self._streams:
                    self._send(selector, ready.data, time.monotonic())
        for stream in tuple(self._streams):
            self._drop(selector, stream)
