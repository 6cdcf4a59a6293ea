"""Listener: receives the wake-ups of `app.kernel.wakeup` and passes them to the consumers."""

import logging
import os
import select
from typing import Any, Protocol

import redis

from app.kernel.db import Database
from app.kernel.threads import STOP_SECONDS, BackgroundThread
from app.kernel.wakeup import CHANNEL, decode, redis_client
from app.queue.claiming.partition import Partition
from brokers.worker_process import WorkerProcess

log = logging.getLogger(__name__)

RECONNECT_SECONDS = 1.0
REDIS_WAIT_SECONDS = 0.5


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

    def __init__(self, process: WorkerProcess, source: Source) -> None:
        super().__init__("te-listener")
        self._process = process
        self._source = source
        self._is_warned = False  # since the last connection

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Stop listening."""
        ended = super().stop(timeout_seconds)
        self._source.close()
        return ended

    def interrupt(self) -> None:
        """Make the source return."""
        self._source.interrupt()

    def connected(self) -> None:
        """Poll at once: wake-ups may have been missed before."""
        self._is_warned = False
        self._process.inboxes.wake()

    def hear(self, payload: str) -> None:
        """Wake the consumers of the queues in a wake-up."""
        for queue, place in decode(payload):
            self._process.inboxes.wake(queue, () if place is None else (Partition(*place),))

    def run(self) -> None:
        """Listen; connect again after errors."""
        while not self.stopping.is_set():
            try:
                self._source.listen(self)
            except Exception as error:  # noqa: BLE001 - wake-ups may be lost, the thread may not
                level, self._is_warned = logging.DEBUG if self._is_warned else logging.WARNING, True
                log.log(level, "wake-ups are off, polling goes on: %s", type(error).__name__)
                self.stopping.wait(RECONNECT_SECONDS)


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
                    listener.hear(payload)
                driver.notifies.clear()
        finally:
            # A connection that listens must not go back into the pool.
            connection.invalidate()

    def interrupt(self) -> None:
        """Make `poll` return."""
        os.write(self._writer, b"x")

    def close(self) -> None:
        """Close the connection and the pipe."""
        self._database.close()
        os.close(self._reader)
        os.close(self._writer)


class RedisSource:
    """SUBSCRIBE to the channel of wake-ups."""

    def __init__(self, url: str) -> None:
        self._client = redis_client(url)

    def listen(self, listener: WakeupListener) -> None:
        """Wait for messages."""
        with self._client.pubsub(ignore_subscribe_messages=True) as pubsub:
            pubsub.subscribe(CHANNEL)
            listener.connected()
            while not listener.stopping.is_set():
                message = pubsub.get_message(timeout=REDIS_WAIT_SECONDS)
                if pubsub.health_check_response_counter > 1:
                    raise redis.ConnectionError("a health check was not answered before the next one")
                if message is not None:
                    listener.hear(message["data"])

    def interrupt(self) -> None:
        """Do nothing: `listen` checks every half second."""

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
