"""Hears the wake-up hints of `app.wakeup` and passes them to the consumers."""

import logging
import os
import select
import threading
from typing import Any, Protocol

import psycopg2
import redis
from sqlalchemy.exc import SQLAlchemyError

from app.db import Database
from app.wakeup import CHANNEL, decode, redis_client
from brokers.worker_process import WorkerProcess

log = logging.getLogger(__name__)

RECONNECT_SECONDS = 1.0
REDIS_WAIT_SECONDS = 0.5


class Source(Protocol):
    """Where hints come from."""

    def listen(self, listener: "WakeupListener") -> None:
        """Pass hints on until the listener is stopping; raises whatever its connection raises."""

    def interrupt(self) -> None:
        """Make a waiting `listen` look whether the listener is stopping."""

    def close(self) -> None:
        """Release connections."""


class WakeupListener:
    """A thread that waits for hints; while its connection is away, polling alone goes on."""

    def __init__(self, process: WorkerProcess, source: Source) -> None:
        self._process = process
        self._source = source
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="te-listener", daemon=True)

    @property
    def is_stopping(self) -> bool:
        """Tell the source to return."""
        return self._stopping.is_set()

    def start(self) -> None:
        """Start listening."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening."""
        self._stopping.set()
        self._source.interrupt()
        self._thread.join(timeout=5)
        self._source.close()

    def connected(self) -> None:
        """Look at once: hints may have been missed before the connection was there."""
        self._process.wake()

    def hear(self, payload: str) -> None:
        """Wake the consumers of the queues that a hint names."""
        for queue in decode(payload):
            self._process.wake(queue)

    def _run(self) -> None:
        while not self.is_stopping:
            try:
                self._source.listen(self)
            except (SQLAlchemyError, OSError, redis.RedisError, psycopg2.Error) as error:
                log.debug("wake-ups are off, polling goes on: %s", type(error).__name__)
                self._stopping.wait(RECONNECT_SECONDS)


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
            while not listener.is_stopping:
                select.select([driver, self._reader], [], [])
                driver.poll()
                for payload in {notify.payload for notify in driver.notifies}:
                    listener.hear(payload)
                driver.notifies.clear()
        finally:
            # A connection that listens must not go back into the pool.
            connection.invalidate()

    def interrupt(self) -> None:
        """Make `select` return."""
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
            while not listener.is_stopping:
                message = pubsub.get_message(timeout=REDIS_WAIT_SECONDS)
                if message is not None:
                    listener.hear(message["data"])

    def interrupt(self) -> None:
        """Do nothing: `listen` looks every half second."""

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
