"""Sides, usually two, stepped through interleavings of their statements, on a real PostgreSQL.

Each side stops before each of its statements and before each commit. A statement in autocommit mode becomes two steps:
the statement and its commit. The next side is chosen depth-first, so each order is tried once. While a side waits for a
lock of another side, only the other sides can continue.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, event, text

from app.kernel import db
from app.kernel.db import Database
from app.kernel.errors import TaskExecutorError

# The short timeout detects a deadlock at once. Only a superuser may set it; the user of the suite's server is one.
_OPTIONS = "-c%20deadlock_timeout%3D5ms%20-c%20default_transaction_isolation%3D"
IS_BLOCKED = text("SELECT cardinality(pg_blocking_pids(:pid)) > 0 AS is_blocked")
POLL_SECONDS = 0.002
MAX_WAIT_SECONDS = 60.0
COMMIT = "COMMIT"

Body = Callable[[Database], object]


class Side:
    """Database of one side: while a body runs, each step waits for permission."""

    def __init__(self, name: str, url: str, level: str, changed: threading.Condition) -> None:
        options = f"{'&' if '?' in url else '?'}options={_OPTIONS}{level.replace(' ', '%5C%20')}"
        self.name = name
        self.database = db.connect(url + options, pool_size=1, application_name=f"te-test-{name}")
        self.pid = self.database.fetch(text("SELECT pg_backend_pid() AS pid"))[0].pid
        self.is_running = self.is_waiting = self.was_rolled_back = False
        self.error: BaseException | None = None
        self.step = ""
        self._changed = changed
        self._may_go = False
        event.listen(self.database.engine, "before_cursor_execute", self._before)
        event.listen(self.database.engine, "after_cursor_execute", self._after)
        event.listen(self.database.engine, "handle_error", self._failed)
        event.listen(self.database.engine, "commit", lambda _connection: self._stop(COMMIT))

    def start(self, body: Body) -> threading.Thread:
        """Run a body in its own thread, up to its first step."""
        self.is_running, self.was_rolled_back, self.error = True, False, None
        thread = threading.Thread(target=self._run, args=[body])
        thread.start()
        return thread

    def go(self) -> None:
        """Permit the step for which the side waits."""
        with self._changed:
            self.is_waiting, self._may_go = False, True
            self._changed.notify_all()

    def _run(self, body: Body) -> None:
        try:
            with suppress(TaskExecutorError):
                body(self.database)
        except BaseException as error:
            self.error = error
        with self._changed:
            self.is_running = False
            self._changed.notify_all()

    def _stop(self, step: str) -> None:
        if not self.is_running:
            return
        with self._changed:
            self.is_waiting, self.step = True, step
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self._may_go, MAX_WAIT_SECONDS), "no side continued"
            self._may_go = False

    def _before(self, connection: Connection, _cursor: Any, sql: str, *_more: Any) -> None:
        if self.is_running:
            self._stop(" ".join(sql.split()))
            driver: Any = connection.connection.dbapi_connection
            connection.info["is_split"] = driver.autocommit and "UPDATE " in sql
            if connection.info["is_split"]:
                driver.autocommit = False

    def _after(self, connection: Connection, *_more: Any) -> None:
        if connection.info.pop("is_split", False):
            self._stop(COMMIT)
            driver: Any = connection.connection.dbapi_connection
            driver.commit()

    def _failed(self, context: Any) -> None:
        self.was_rolled_back = True
        if context.connection is not None and context.connection.info.pop("is_split", False):
            context.connection.connection.dbapi_connection.rollback()


class SideGroup:
    """Sides over one database, and a connection that finds out which side waits for a lock."""

    def __init__(self, url: str, level: str, names: str) -> None:
        self.changed = threading.Condition()
        self.taken: list[str] = []
        self.sides = [Side(name, url, level, self.changed) for name in names]
        self.watcher = db.connect(url, pool_size=1, application_name="te-test-watcher")

    def run(self, bodies: Sequence[Body], choices: Sequence[int], *, with_reads: bool = False) -> list[int]:
        """Run a body on each side; returns the index of the side that continued at each point where the order matters.

        Before a plain read, a side lets another side proceed to its commit. `with_reads` also tries the orders in which
        the read, and the lock after it, precede this commit: far more orders.
        """
        threads = [side.start(body) for side, body in zip(self.sides, bodies, strict=True)]
        made, self.taken = list[int](), []
        while waiting := self._settled():
            index = _only_choice(waiting, with_reads=with_reads)
            if index is None:
                index = choices[len(made)] % len(waiting) if len(made) < len(choices) else 0
                made.append(index)
            self.taken.append(f"{waiting[index].name}: {waiting[index].step[:80]}")
            waiting[index].go()
        for thread in threads:
            thread.join(MAX_WAIT_SECONDS)
        for side in self.sides:
            if side.error is not None:
                raise side.error
        return made

    def _settled(self) -> list[Side]:
        """Wait until each side has a step, waits for a lock or has ended; returns the sides with a step."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: not self._busy(), POLL_SECONDS)
                busy = self._busy()
                waiting = [side for side in self.sides if side.is_waiting]
            if not busy or (waiting and all(self._is_blocked(side) for side in busy)):
                return waiting

    def _busy(self) -> list[Side]:
        return [side for side in self.sides if side.is_running and not side.is_waiting]

    def _is_blocked(self, side: Side) -> bool:
        return bool(self.watcher.fetch(IS_BLOCKED, {"pid": side.pid})[0].is_blocked)

    def close(self) -> None:
        """Close all connections."""
        for side in self.sides:
            side.database.close()
        self.watcher.close()


def _only_choice(waiting: Sequence[Side], *, with_reads: bool) -> int | None:
    """Return the index of the side that continues if the order makes no difference, else None.

    A plain read takes no lock and sees no change before the other side's commit. A side that was rolled back by a
    deadlock or a conflict runs again after the next side: another choice tries that order anyway.
    """
    if len(waiting) == 1:
        return 0
    for index, side in enumerate(waiting):
        next_one = (index + 1) % len(waiting)
        if side.was_rolled_back or (not with_reads and _is_read(side.step) and waiting[next_one].step != COMMIT):
            return next_one
    return None


def _is_read(step: str) -> bool:
    return step.startswith("SELECT") and not step.endswith(("FOR UPDATE", "FOR SHARE", "FOR KEY SHARE"))


@contextmanager
def pair(url: str, level: str) -> Iterator[SideGroup]:
    """Open a pair of sides at an isolation level."""
    with sides_named("ab", url, level) as opened:
        yield opened


@contextmanager
def sides_named(names: str, url: str, level: str) -> Iterator[SideGroup]:
    """Open a side for each letter of `names` at an isolation level."""
    opened = SideGroup(url, level, names)
    yield opened
    opened.close()


def interleavings(run: Callable[[Sequence[int]], Sequence[int]]) -> Iterator[list[int]]:
    """Run with each order in turn; `run` takes the first choices of an order and returns all choices that it made."""
    choices: list[int] | None = []
    while choices is not None:
        made = list(run(choices))
        yield made
        last = next((place for place in reversed(range(len(made))) if made[place] == 0), None)
        choices = None if last is None else [*made[:last], 1]
