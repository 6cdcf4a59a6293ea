"""Inboxes of the consumers, and the listener that receives wake-ups (`app.kernel.wakeup`) for them."""

import logging
import os
import select
import threading
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from app.kernel.db import Database
from app.kernel.metrics import series
from app.kernel.metrics.values import Values
from app.kernel.threads import STOP_SECONDS, BackgroundThread
from app.kernel.wakeup import CHANNEL, REDIS_HEALTH_SECONDS, Wakeup, decode, redis_client
from app.queue.claiming.partition import Partition

log = logging.getLogger(__name__)

RECONNECT_SECONDS = 1.0
REDIS_WAIT_SECONDS = 0.5
MAX_UNREAD = 64  # wake-ups of one queue; a consumer that has so many polls soon
DROP_REASONS = ("malformed", "unknown_queue", "unread")


class Inbox:
    """Unread wake-ups of a consumer; `arrived` is set after each."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        # Partitions with due executions, and since when; no partitions for a poll.
        self.due = deque[tuple[Sequence[Partition], datetime | None]]()
        self.wakeups = deque[Wakeup]()  # of other processes, or of a stranger
        self.ended = deque[Sequence[tuple[str, str]]]()  # endpoints and limit keys
        self.has_room = False  # slots were given back after a refused reservation


class Inboxes:
    """The inboxes of a worker process, by queue; no method blocks."""

    def __init__(self, values: Values | None = None) -> None:
        self.unknown = threading.Event()  # set by a wake-up for a queue that has no inbox
        self._values = values or Values()
        self._values.begin(series.WAKEUPS_DROPPED, DROP_REASONS)
        self._by_queue: dict[str, Inbox] = {}

    @property
    def count(self) -> int:
        """Number of queues with a consumer."""
        return len(self._by_queue)

    def open(self, queue: str) -> Inbox:
        """Return a new inbox; it replaces the inbox of the queue's last consumer."""
        inbox = self._by_queue[queue] = Inbox()
        return inbox

    def wake(
        self, queue: str | None = None, partitions: Sequence[Partition] = (), since: datetime | None = None
    ) -> None:
        """Report due executions in partitions of a queue, unknown partitions for (), all queues for None.

        They have been due since `since`, or for a short while if that is None.
        """
        for name, inbox in list(self._by_queue.items()):
            if queue in (None, name):
                inbox.due.append((partitions, since))
                inbox.arrived.set()

    def receive(self, payload: str) -> None:
        """Pass on the wake-ups in a payload of any origin; count and drop all other parts. Raises nothing."""
        wakeups, malformed = decode(payload)
        if malformed:
            self._values.add(series.WAKEUPS_DROPPED, "malformed", amount=malformed)
        for wakeup in wakeups:
            inbox = self._by_queue.get(wakeup.queue)
            if inbox is None:
                self.unknown.set()
                self._values.add(series.WAKEUPS_DROPPED, "unknown_queue")
            elif len(inbox.wakeups) >= MAX_UNREAD:
                self._values.add(series.WAKEUPS_DROPPED, "unread")
            else:
                inbox.wakeups.append(wakeup)
                inbox.arrived.set()

    def report_capacity(self) -> None:
        """Report to all consumers that slots were given back."""
        for inbox in list(self._by_queue.values()):
            inbox.has_room = True
            inbox.arrived.set()

    def report_ended(self, queue: str, ended: Sequence[tuple[str, str]]) -> None:
        """Report endpoints and limit keys of ended executions, which may have blocked other executions."""
        inbox = self._by_queue.get(queue)
        if inbox is not None:
            inbox.ended.append(ended)
            inbox.has_room = True
            inbox.arrived.set()


class Source(Protocol):
    """A source of wake-ups."""

    def listen(self, listener: "WakeupListener") -> None:
        """Pass wake-ups on until the listener is stopping; raises the errors of the connection."""

    def interrupt(self) -> None:
        """Make a waiting `listen` check if the listener is stopping."""

    def close(self) -> None:
        """Release connections."""


class WakeupListener(BackgroundThread):
    """A thread that waits for wake-ups; without a connection, consumers only poll."""

    def __init__(self, inboxes: Inboxes, source: Source, *, reconnect_seconds: float = RECONNECT_SECONDS) -> None:
        super().__init__("te-listener")
        self.inboxes = inboxes
        self._source = source
        self._reconnect_seconds = reconnect_seconds
        self._is_warned = False  # since the last connection

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        ended = super().stop(timeout_seconds)
        self._source.close()
        return ended

    def interrupt(self) -> None:
        self._source.interrupt()

    def connected(self) -> None:
        """Poll at once: wake-ups may have been missed before."""
        self._is_warned = False
        self.inboxes.wake()

    def run(self) -> None:
        """Listen; connect again after errors."""
        while not self.stopping.is_set():
            try:
                self._source.listen(self)
            except Exception as error:  # noqa: BLE001 - wake-ups may be lost, the thread may not
                level, self._is_warned = logging.DEBUG if self._is_warned else logging.WARNING, True
                log.log(level, "cannot receive wake-ups: %s; polling instead", type(error).__name__)
                self.stopping.wait(self._reconnect_seconds)


class PostgresSource:
    """LISTEN on a connection of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reader, self._writer = os.pipe()

    def listen(self, listener: WakeupListener) -> None:
        """Wait for notifications on the connection's socket."""
        connection: Any = self._database.engine.raw_connection()
        try:
            driver = connection.driver_connection
            driver.autocommit = True
            with driver.cursor() as cursor:
                cursor.execute(f"LISTEN {CHANNEL}")
            listener.connected()
            # select() takes no descriptor above 1,023, and a busy process has more.
            poller = select.poll()
            poller.register(driver, select.POLLIN)
            poller.register(self._reader, select.POLLIN)
            while not listener.stopping.is_set():
                poller.poll()
                driver.poll()
                for payload in {notify.payload for notify in driver.notifies}:
                    listener.inboxes.receive(payload)
                driver.notifies.clear()
        finally:
            # A connection that listens must not go back into the pool.
            connection.invalidate()

    def interrupt(self) -> None:
        os.write(self._writer, b"x")

    def close(self) -> None:
        """Close the connection and the pipe."""
        self._database.close()
        os.close(self._reader)
        os.close(self._writer)


class RedisSource:
    """SUBSCRIBE to the channel of wake-ups."""

    def __init__(self, url: str, health_check_seconds: float = REDIS_HEALTH_SECONDS) -> None:
        self._client = redis_client(url, health_check_seconds)

    def listen(self, listener: WakeupListener) -> None:
        with self._client.pubsub(ignore_subscribe_messages=True) as pubsub:
            pubsub.subscribe(CHANNEL)
            listener.connected()
            while not listener.stopping.is_set():
                message = pubsub.get_message(timeout=REDIS_WAIT_SECONDS)
                if pubsub.health_check_response_counter > 1:
                    raise ConnectionError("a health check was not answered before the next one")
                if message is not None:
                    listener.inboxes.receive(message["data"])

    def interrupt(self) -> None:
        """Do nothing: `listen` checks every half second."""

    def close(self) -> None:
        self._client.close()
