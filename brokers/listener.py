"""Listener: receives the hints of `app.kernel.wakeup` and passes them to the consumers."""

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
    """A source of hints."""

    def listen(self, listener: "WakeupListener") -> None:
        """Pass hints on until the listener is stopping; raises whatever its connection raises."""

    def interrupt(self) -> None:
        """Make a waiting `listen` check whether the listener is stopping."""

    def close(self) -> None:
        """Release connections."""


class WakeupListener(BackgroundThread):
    """A thread that waits for hints; while it has no connection, polling alone goes on."""

    def __init__(self, process: WorkerProcess, source: Source) -> None:
        super().__init__("te-listener")
        self._process = process
        self._source = source
        self._is_warned = False  # since the last time that there was a connection

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> bool:
        """Stop listening."""
        ended = super().stop(timeout_seconds)
        self._source.close()
        return ended

    def interrupt(self) -> None:
        """Make the source return."""
        self._source.interrupt()

    def connected(self) -> None:
        """Look at once: hints may have been missed before the connection was there."""
        self._is_warned = False
        self._process.inboxes.wake()

    def hear(self, payload: str) -> None:
        """Wake the consumers of the queues that a hint names."""
        for queue, place in decode(payload):
            self._process.inboxes.wake(queue, () if place is None else (Partition(*place),))

    def run(self) -> None:
        """Listen, and connect again after each lost connection."""
        while not self.stopping.is_set():
            try:
                self._source.listen(self)
            except Exception as error:  # noqa: BLE001 - a hint may be lost, the process that polls may not
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
            # Not select(), which takes no descriptor above 1,023: a busy process has more than that.
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
    """SUBSCRIBE to the channel of hints."""

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
