"""Unawaited statements: sent on a connection of its own, by a thread that does not wait for their answers."""

import math
import os
import select
import socket
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import psycopg2
from psycopg2.extensions import POLL_OK, POLL_READ
from sqlalchemy import Dialect, Engine, TextClause

CONNECT_SECONDS = 5.0
AGAIN_SECONDS = 30.0  # after a failure: there may be no connection left for it
LASTS_SECONDS = 300.0  # as the pool's, so that it follows the database to another server


class Unawaited:
    """Sends a statement as soon as the one before it has been answered; callers hold a lock of their own.

    What is sent may get lost, and nobody is told of its errors.
    """

    def __init__(self, engine: Engine, connect: Callable[..., Any]) -> None:
        """`connect` opens a connection of the driver, with the keyword arguments that it is given besides its own."""
        self._engine = engine
        self._connect = connect
        self._connection: Any = None
        self._cursor: Any = None  # kept, because an answer is lost on a connection whose cursor is gone
        self._process_id = 0
        self._until = -math.inf
        self._again_at = -math.inf

    @property
    def is_wanting(self) -> bool:
        """Whether there is no connection, and none could not be opened of late."""
        is_open = self._connection is not None and self._process_id == os.getpid()
        return not is_open and time.monotonic() >= self._again_at

    def open(self, server: Mapping[str, object]) -> None:
        """Connect to a server, see `server_of`; waits for CONNECT_SECONDS at most, and raises the driver's errors."""
        self._again_at = time.monotonic() + AGAIN_SECONDS
        connection = self._connect(async_=1, **server)
        _wait_until_open(connection)
        self._process_id, self._cursor = os.getpid(), connection.cursor()
        self._until, self._again_at = time.monotonic() + LASTS_SECONDS, -math.inf
        self._connection = connection

    def send(self, statement: TextClause, params: Mapping[str, object]) -> bool:
        """Send a statement; False where it cannot be sent at once."""
        # A fork copies this object, but must not touch its parent's connection.
        if self._connection is None or self._process_id != os.getpid():
            return False
        try:
            if self._connection.poll() != POLL_OK:
                return False
            if time.monotonic() >= self._until:
                self.close()
                return False
            self._cursor.execute(_text(statement, self._engine.dialect), params)
        except psycopg2.Error:
            self.close()
            return False
        return True

    def close(self) -> None:
        """Close the connection; `open` makes another one."""
        connection, self._connection = self._connection, None
        if connection is not None and self._process_id == os.getpid():
            connection.close()


def server_of(driver: Any) -> dict[str, object]:
    """Return where a connection leads, by address.

    While the driver connects without waiting it looks names up all the same, and no other thread of the process runs
    until it knows them; and of several hosts it would wait for the first one only.
    """
    server = {"host": driver.info.host, "port": driver.info.port}
    with socket.socket(fileno=os.dup(driver.fileno())) as end:
        if end.family != socket.AF_UNIX:
            server["hostaddr"] = end.getpeername()[0]
    return server


def _wait_until_open(connection: Any) -> None:
    until = time.monotonic() + CONNECT_SECONDS
    while (state := connection.poll()) != POLL_OK:
        # Not select(), which takes no descriptor above 1,023.
        poller = select.poll()
        poller.register(connection, select.POLLIN if state == POLL_READ else select.POLLOUT)
        if not poller.poll(max(0.0, until - time.monotonic()) * 1000):
            connection.close()
            raise psycopg2.OperationalError("the connection was not there in time")


@cache
def _text(statement: TextClause, dialect: Dialect) -> str:
    return statement.compile(dialect=dialect).string
