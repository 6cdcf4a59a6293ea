"""Fire-and-forget statements: sent on a separate connection, by a thread that does not wait for their answers."""

import math
import os
import select
import socket
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import psycopg2
from psycopg2.extensions import POLL_OK, POLL_READ
from sqlalchemy import Dialect, Engine, TextClause

CONNECT_SECONDS = 5.0
RETRY_SECONDS = 30.0  # after a failure: the server may have no connection left
ANSWERED_SECONDS = 1.0  # for which a statement may stay unanswered
LASTS_SECONDS = 300.0  # as the pool's connections, so that it follows the database to another server


class FireAndForget:
    """Sends a statement if the previous one has been answered; callers hold a lock of their own.

    A statement may get lost, and its errors are not reported.
    """

    def __init__(self, engine: Engine, options: Mapping[str, Any]) -> None:
        """`options` are arguments of the driver, besides the arguments in the engine's URL."""
        self._engine = engine
        self._options = options
        self._connection: Any = None
        self._cursor: Any = None  # kept, because an answer is lost on a connection without its cursor
        self._process_id = 0
        self._until = -math.inf
        self._sent_at = -math.inf
        self._retry_at = -math.inf
        self.connect_seconds = CONNECT_SECONDS
        self.lasts_seconds = LASTS_SECONDS

    @property
    def is_open(self) -> bool:
        """Whether this process has a connection; the previous statement may be unanswered."""
        # A fork copies this object, but must not touch its parent's connection.
        return self._connection is not None and self._process_id == os.getpid()

    @property
    def is_wanting(self) -> bool:
        """Whether there is no connection, and the last attempt to open one did not fail recently."""
        return not self.is_open and time.monotonic() >= self._retry_at

    def open(self, server: Mapping[str, object]) -> None:
        """Connect to a server, see `server_of`; waits for `connect_seconds` at most, and raises the driver's errors."""
        self._retry_at = time.monotonic() + RETRY_SECONDS
        arguments, named = self._engine.dialect.create_connect_args(self._engine.url)
        connection = psycopg2.connect(*arguments, **{**named, **self._options, **server, "async_": 1})
        _wait_until_open(connection, time.monotonic() + self.connect_seconds)
        self._process_id, self._cursor = os.getpid(), connection.cursor()
        self._until, self._retry_at = time.monotonic() + self.lasts_seconds, -math.inf
        self._connection = connection

    def send(self, statement: TextClause, params: Mapping[str, object]) -> bool:
        """Send a statement; returns false if it cannot be sent at once.

        Closes the connection if it is old, or its server does not answer.
        """
        if self._connection is None or self._process_id != os.getpid():  # `is_open`, without a call
            return False
        now = time.monotonic()
        try:
            if self._connection.poll() != POLL_OK:
                if now - self._sent_at > ANSWERED_SECONDS:
                    self.close()
                return False
            if now >= self._until:
                self.close()
                return False
            self._sent_at = now
            self._cursor.execute(_text(statement, self._engine.dialect), params)
        except psycopg2.Error:
            self.close()
            return False
        return True

    def close_idle(self, idle_seconds: float) -> None:
        """Close the connection if it has sent nothing for some time."""
        if self._connection is not None and time.monotonic() - self._sent_at >= idle_seconds:
            self.close()

    def close(self) -> None:
        """Close the connection; `open` makes another one."""
        connection, self._connection = self._connection, None
        if connection is not None and self._process_id == os.getpid():
            connection.close()


def server_of(driver: Any) -> dict[str, object]:
    """Return the server of a connection, by address.

    An asynchronous connection resolves host names in a blocking call that stops the whole process, and waits only for
    the first of several hosts.
    """
    server = {"host": driver.info.host, "port": driver.info.port}
    with socket.socket(fileno=os.dup(driver.fileno())) as end:
        if end.family != socket.AF_UNIX:
            server["hostaddr"] = end.getpeername()[0]
    return server


def _wait_until_open(connection: Any, until: float) -> None:
    while (state := connection.poll()) != POLL_OK:
        # Not select(), which takes no descriptor above 1,023.
        poller = select.poll()
        poller.register(connection, select.POLLIN if state == POLL_READ else select.POLLOUT)
        if not poller.poll(max(0.0, until - time.monotonic()) * 1000):
            connection.close()
            raise psycopg2.OperationalError("the connection was not open in time")


@cache
def _text(statement: TextClause, dialect: Dialect) -> str:
    return statement.compile(dialect=dialect).string
