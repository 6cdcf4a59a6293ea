"""A joint transaction: one that everything which a thread asks of the database is part of."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from sqlalchemy import Connection, Executable, Row

from app.kernel.db import deadline
from app.kernel.function_types import Work

T = TypeVar("T")


class JointTransaction(threading.local):
    """The joint transaction of the calling thread: `connection` is None where it has none."""

    connection: Connection | None = None
    _stack: ExitStack | None = None

    def begin(self, connection: Connection, stack: ExitStack) -> None:
        """Let this thread's statements run on a connection until its transaction, which `stack` ends, is over."""
        self.connection, self._stack = connection, stack

    def fetch(self, statement: Executable, params: Mapping[str, object] | None) -> Sequence[Row[Any]]:
        """Run one statement and return its rows; raises TimedOutError once this thread's deadline has passed."""

        def body(connection: Connection) -> Sequence[Row[Any]]:
            result = connection.execute(statement, params or {})
            return result.all() if result.returns_rows else ()

        return self.transact(body)

    def transact(self, body: Work[T]) -> T:
        """Run `body` as a part of it; raises TimedOutError once this thread's deadline has passed."""
        if self.connection is None:
            raise RuntimeError("this thread has no joint transaction")
        deadline.check()
        return body(self.connection)

    def leave(self) -> None:
        """Let this thread's statements run on their own again; the transaction goes on."""
        self.connection = self._stack = None

    def commit(self) -> None:
        """Commit it now, and give its connection back; does nothing without one."""
        stack = self._stack
        self.leave()
        if stack is not None:
            stack.close()
