"""Two sides stepped through every interleaving of their statements, on a real PostgreSQL.

Each side stops before each of its statements and before each commit; a statement that commits by itself is taken apart
into the two. Which side goes on is chosen depth-first, so that every order is tried once. A side that waits for a lock
of the other has no step: the other one goes on until it has.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, event, text

from app.kernel import db
from app.kernel.db import Database
from app.kernel.errors import TaskExecutorError

# A deadlock is found at once. Only a superuser may set this, as the user of the suite's own server is.
_OPTIONS = "-c%20deadlock_timeout%3D5ms%20-c%20default_transaction_isolation%3D"
IS_BLOCKED = text("SELECT cardinality(pg_blocking_pids(:pid)) > 0 AS is_blocked")
LOOK_SECONDS = 0.002
LONGEST_SECONDS = 60.0
COMMIT = "COMMIT"

Body = Callable[[Database], object]


class Side:
    """One side: a database whose steps wait to be allowed while a body runs."""

    def __init__(self, name: str, url: str, level: str, changed: threading.Condition) -> None:
        options = f"{'&' if '?' in url else '?'}options={_OPTIONS}{level.replace(' ', '%5C%20')}"
        self.name = name
        self.database = db.connect(url + options, pool_size=1, application_name=f"te-test-{name}")
        self.pid = self.database.fetch(text("SELECT pg_backend_pid() AS pid"))[0].pid
        self.is_running = self.is_waiting = self.was_undone = False
        self.error: BaseException | None = None
        self.step = ""
        self._changed = changed
        self._may_go = False
        event.listen(self.database.engine, "before_cursor_execute", self._before)
        event.listen(self.database.engine, "after_cursor_execute", self._after)
        event.listen(self.database.engine, "handle_error", self._failed)
        event.listen(self.database.engine, "commit", lambda _connection: self._stop(COMMIT))

    def start(self, body: Body) -> threading.Thread:
        """Run a body in a thread of its own, up to its first step."""
        self.is_running, self.was_undone, self.error = True, False, None
        thread = threading.Thread(target=self._run, args=[body])
        thread.start()
        return thread

    def go(self) -> None:
        """Allow the step that is waited for."""
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
            assert self._changed.wait_for(lambda: self._may_go, LONGEST_SECONDS), "nobody went on"
            self._may_go = False

    def _before(self, connection: Connection, _cursor: Any, sql: str, *_more: Any) -> None:
        if self.is_running:
            self._stop(" ".join(sql.split()))
            driver: Any = connection.connection.dbapi_connection
            connection.info["takes_apart"] = driver.autocommit and "UPDATE " in sql
            if connection.info["takes_apart"]:
                driver.autocommit = False

    def _after(self, connection: Connection, *_more: Any) -> None:
        if connection.info.pop("takes_apart", False):
            self._stop(COMMIT)
            driver: Any = connection.connection.dbapi_connection
            driver.commit()

    def _failed(self, context: Any) -> None:
        self.was_undone = True
        if context.connection is not None and context.connection.info.pop("takes_apart", False):
            context.connection.connection.dbapi_connection.rollback()


class Pair:
    """Two sides over one database, and a look at it from outside."""

    def __init__(self, url: str, level: str) -> None:
        self.changed = threading.Condition()
        self.taken: list[str] = []
        self.sides = [Side(name, url, level, self.changed) for name in "ab"]
        self.watcher = db.connect(url, pool_size=1, application_name="te-test-watcher")

    def run(self, bodies: Sequence[Body], choices: Sequence[int], *, with_reads: bool = False) -> list[int]:
        """Run both bodies; returns which side went on wherever the order matters.

        Who is about to read lets the other one come to its commit first, which leaves out the orders in which it reads
        and comes to its next lock before that; `with_reads` tries these too, and so many more orders.
        """
        threads = [side.start(body) for side, body in zip(self.sides, bodies, strict=True)]
        made, self.taken = list[int](), []
        while waiting := self._settled():
            index = _only_choice(waiting, with_reads=with_reads)
            if index is None:
                index = choices[len(made)] if len(made) < len(choices) else 0
                made.append(index)
            self.taken.append(f"{waiting[index].name}: {waiting[index].step[:80]}")
            waiting[index].go()
        for thread in threads:
            thread.join(LONGEST_SECONDS)
        for side in self.sides:
            if side.error is not None:
                raise side.error
        return made

    def _settled(self) -> list[Side]:
        """Wait until each side has a step, waits for the other's lock, or is over; returns those with a step."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: not self._busy(), LOOK_SECONDS)
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
    """Return who goes on where the order makes no difference.

    A plain read takes no lock and sees nothing before the other's commit. What was undone, by a deadlock or a conflict,
    runs again after the other: that order is one of those that are tried anyway.
    """
    if len(waiting) == 1:
        return 0
    for index, side in enumerate(waiting):
        other = waiting[1 - index]
        if side.was_undone or (not with_reads and _is_read(side.step) and other.step != COMMIT):
            return 1 - index
    return None


def _is_read(step: str) -> bool:
    return step.startswith("SELECT") and not step.endswith(("FOR UPDATE", "FOR SHARE", "FOR KEY SHARE"))


@contextmanager
def pair(url: str, level: str) -> Iterator[Pair]:
    """Open a pair of sides at an isolation level."""
    opened = Pair(url, level)
    yield opened
    opened.close()


def interleavings(run: Callable[[Sequence[int]], Sequence[int]]) -> Iterator[list[int]]:
    """Run with one order after the other, until all were tried; `run` takes choices and returns those it came to."""
    choices: list[int] | None = []
    while choices is not None:
        made = list(run(choices))
        yield made
        last = next((place for place in reversed(range(len(made))) if made[place] == 0), None)
        choices = None if last is None else [*made[:last], 1]
