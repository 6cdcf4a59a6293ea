"""Unawaited statements: sent on a connection of its own, by a thread that does not wait for their answers."""

import os
import select
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import psycopg2
from psycopg2.extensions import POLL_OK, POLL_READ
from sqlalchemy import Dialect, Engine, TextClause

CONNECT_SECONDS = 5.0


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

    def open(self) -> None:
        """Connect unless there is a connection; raises the driver's errors, also after CONNECT_SECONDS."""
        if self._connection is not None and self._process_id == os.getpid():
            return
        connection, until = self._connect(async_=1), time.monotonic() + CONNECT_SECONDS
        while (state := connection.poll()) != POLL_OK:
            # Not select(), which takes no descriptor above 1,023; and each address that is tried has another one.
            poller = select.poll()
            poller.register(connection, select.POLLIN if state == POLL_READ else select.POLLOUT)
            if not poller.poll(max(0.0, until - time.monotonic()) * 1000):
                connection.close()
                raise psycopg2.OperationalError("the connection was not there in time")
        self._process_id, self._cursor = os.getpid(), connection.cursor()
        self._connection = connection

    def send(self, statement: TextClause, params: Mapping[str, object]) -> bool:
        """Send a statement; False where it cannot be sent at once."""
        # A fork copies this object, but must not touch its parent's connection.
        if self._connection is None or self._process_id != os.getpid():
            return False
        try:
            if self._connection.poll() != POLL_OK:
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


@cache
def _text(statement: TextClause, dialect: Dialect) -> str:
    return statement.compile(dialect=dialect).string
