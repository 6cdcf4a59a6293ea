"""Databases that stay open between tests: to connect and to prepare statements costs more than most tests."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, NoReturn, cast

from sqlalchemy import text

from app.kernel import db
from app.kernel.db import Database
from app.kernel.errors import UnavailableError

# Restore the session as it was when the connection was opened, but keep its prepared statements.
_RESET = "RESET ALL; SELECT pg_backend_pid() AS pid"
_RESET_POSTGRESQL = (
    "RESET SESSION AUTHORIZATION; UNLISTEN *; DISCARD TEMP; DISCARD SEQUENCES; SELECT pg_advisory_unlock_all(); "
)


class _Returned:
    """Engine of a database that a test has returned: a thread left by the test fails, and reaches no further test.

    A thread that uses the true engine without its Database is found only if it has a connection at that moment.
    """

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError("The test has returned this database; stop its threads before the test ends.")


class OpenDatabases:
    """Objects of Database that wait for the next test; each has one idle connection."""

    def __init__(self) -> None:
        self._idle: dict[str, dict[tuple[str, int], _KeptDatabase]] = {}

    def add(self, url: str) -> None:
        """Keep connections to this database, which several tests get in turn."""
        self._idle.setdefault(url, {})

    @contextmanager
    def lend(self, url: str, *, pool_size: int, application_name: str) -> Iterator[Database]:
        """Lend an open database, whose `close` does nothing; close it afterwards if the test has changed it."""
        idle, key = self._idle.get(url, {}), (application_name, pool_size)
        kept = idle.pop(key, None) or _KeptDatabase(url, pool_size, application_name)
        lent = kept.copy()
        try:
            yield lent
        finally:
            if url in self._idle and key not in idle and kept.is_reusable_after(lent):
                idle[key] = kept
            else:
                kept.close()

    def connections(self, url: str) -> set[int]:
        """Return the server's process ids of the idle connections to a database."""
        return {kept.process_id for kept in self._idle[url].values()}

    def close(self, url: str) -> None:
        """Close the idle connections to a database, which is about to be dropped."""
        for kept in self._idle.pop(url, {}).values():
            kept.close()


class _KeptDatabase:
    """A database whose copies are lent, and the state of its shared parts when they were new."""

    process_id = 0

    def __init__(self, url: str, pool_size: int, application_name: str) -> None:
        self._database: Any = db.connect(url, pool_size=pool_size, application_name=application_name)
        self._new = self._state()

    def copy(self) -> Database:
        """Return a database with its own attributes and fire-and-forget connection; the rest is shared."""
        lent: Any = copy(self._database)
        lent.fire_and_forget = copy(self._database.fire_and_forget)
        lent.close = lambda: None  # a worker process closes its databases
        return cast("Database", lent)

    def is_reusable_after(self, lent: Any) -> bool:
        """End the use of a copy, leave one idle connection, and return whether the shared parts are as they were."""
        # First of all: from now on no thread gets a connection, and a thread that has one holds a permit of `_free`.
        lent.engine = _Returned()
        lent.fire_and_forget.close()
        pool = self._database.engine.pool
        if self._state() != self._new or not pool.checkedin():
            return False
        pool.close_idle(math.inf)
        reset = _RESET if self._database.is_cockroach else _RESET_POSTGRESQL + _RESET
        try:
            self.process_id = self._database.fetch(text(reset))[0].pid
        except UnavailableError:
            return False
        return True

    def close(self) -> None:
        self._database.close()

    def _state(self) -> list[object]:
        """Return the parts of a database that copies share and a test can change; a test may replace the pool, too."""
        parts, engine = vars(self._database), self._database.engine
        dispatches = (engine.dispatch, engine.pool.dispatch, engine.dialect.dispatch)
        names = [(each, name) for each in dispatches for name in each._event_names]  # noqa: SLF001
        listeners = [len(getattr(each, name).listeners) for each, name in names]  # not those of `tests.restarts`
        permits, breaker = (vars(parts[name]).copy() for name in ("_free", "_breaker"))
        return [engine.pool, engine.pool.checkedout(), permits, breaker, parts["_stalled"].idle_seconds, *listeners]
