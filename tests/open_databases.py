"""Databases that stay open between tests: to connect and to prepare statements costs more than most tests."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import text

from app.kernel import db
from app.kernel.db import Database
from app.kernel.errors import UnavailableError

# The settings that a connection has got when it was opened.
_RESET = text("RESET ALL; SELECT pg_backend_pid() AS pid")
_EVENTS = ("before_execute", "before_cursor_execute", "after_cursor_execute", "commit")


class OpenDatabases:
    """Objects of Database that wait for the next test; each has one idle connection."""

    def __init__(self) -> None:
        self._idle: dict[str, dict[tuple[str, int], _LentDatabase]] = {}

    def add(self, url: str) -> None:
        """Keep connections to this database, which several tests get in turn."""
        self._idle.setdefault(url, {})

    @contextmanager
    def lend(self, url: str, *, pool_size: int, application_name: str) -> Iterator[Database]:
        """Lend an open database, whose `close` does nothing; close it afterwards if the test has changed it."""
        idle, key = self._idle.get(url, {}), (application_name, pool_size)
        lent = idle.pop(key, None) or _LentDatabase(url, pool_size, application_name)
        try:
            yield lent.database
        finally:
            if url in self._idle and key not in idle and lent.is_reusable():
                idle[key] = lent
            else:
                lent.close()

    def connections(self, url: str) -> set[int]:
        """Return the server's process ids of the idle connections to a database."""
        return {lent.process_id for lent in self._idle[url].values()}

    def close(self, url: str) -> None:
        """Close the idle connections to a database, which is about to be dropped."""
        for lent in self._idle.pop(url, {}).values():
            lent.close()


class _LentDatabase:
    """A database, and its state when it was new."""

    process_id = 0

    def __init__(self, url: str, pool_size: int, application_name: str) -> None:
        self.database = db.connect(url, pool_size=pool_size, application_name=application_name)
        self.close = self.database.close
        self.database.close = lambda: None  # type: ignore[method-assign] # a worker process closes its databases
        self._new = self._state()

    def is_reusable(self) -> bool:
        """Leave one idle connection, and return whether the test has left the rest as it was."""
        pool: Any = self.database.engine.pool
        self.database.fire_and_forget.close()
        if self._state() != self._new or not pool.checkedin():
            return False
        pool.close_idle(math.inf)
        try:
            self.process_id = self.database.fetch(_RESET)[0].pid
        except UnavailableError:
            return False
        return True

    def _state(self) -> list[object]:
        engine = self.database.engine
        listeners = [len(getattr(engine.dispatch, name).listeners) for name in _EVENTS]
        pool: Any = engine.pool
        return [*vars(self.database).values(), pool, pool.checkedout(), *listeners]
