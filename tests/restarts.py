"""Restarts at random: the server refuses statements and COMMITs (40001), and answers to them are lost.

A pytest plugin: `python -m pytest -p tests.restarts --restarts 0.05` restarts at five of a hundred places. Only
work of this process that the product repeats by itself is hit, and less often than it repeats. Tests marked
`own_faults` or with the fixture `faults`, and engines with listeners of a test, run without: such tests count
statements or cause faults.

Answers are lost inside requests of the API only, whose clients get the same answer although one was lost. A worker,
chore or command goes on after a lost answer, but counts the changes of its second run only, and a test that asks it
directly uses what was lost. So elsewhere finished work runs again and keeps its first result; of the second run only
errors of the database and the API are seen. Work with a statement of up to `limit` rows would take the next rows in its
second run, so it runs once.
"""

import random
import secrets
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import flask
import psycopg2
import pytest
from psycopg2.extensions import TRANSACTION_STATUS_INERROR
from sqlalchemy import Engine, event
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2
from sqlalchemy.exc import SQLAlchemyError

from app.kernel import db
from app.kernel.db.retries import DatabaseBreaker, retried
from app.kernel.errors import TaskExecutorError
from app.kernel.sql import NamedStatement

MAX_CONFLICTS = 3  # of one piece of work, which runs MAX_TRIES times
# The server itself reports the error, so that a transaction is aborted.
CONFLICT = "DO $$ BEGIN RAISE EXCEPTION 'restart transaction' USING ERRCODE = '40001'; END $$"
COMMIT = PGDialect_psycopg2.do_commit
LOST = "server closed the connection unexpectedly"
LISTENED = ("before_execute", "before_cursor_execute", "after_cursor_execute", "commit")


class Work(threading.local):
    """The work that the thread's innermost `retried` repeats, and the faults that it may still meet."""

    conflicts = losses = 0
    takes_next_rows = False  # in a second run, since a statement has a limit


class Restarts:
    """Faults of a session, drawn from a seed."""

    def __init__(self, share: float, seed: str) -> None:
        self.share, self.seed = share, seed
        self.counts = Counter[str]()
        self._random = random.Random(seed)
        self._work = Work()
        self._is_on = False
        self._listeners = {
            "do_execute": self._before_statement,
            "before_cursor_execute": self._before_hot_statement,
            "after_cursor_execute": self._after_statement,
        }

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._random = random.Random(f"{self.seed} {item.nodeid}")
        fixtures = getattr(item, "fixturenames", ())
        is_on = "faults" not in fixtures and item.get_closest_marker("own_faults") is None
        if is_on is not self._is_on:
            self._hook() if is_on else self._unhook()
        self._is_on = is_on
        return (yield)

    def pytest_report_header(self) -> str:
        return f"restarts: {self.share}, seed {self.seed}"

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["restarts"] = dict(self.counts)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the counts of a process of pytest-xdist."""
        self.counts.update(getattr(node, "workeroutput", {}).get("restarts", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(f"restarts: {dict(sorted(self.counts.items()))}")

    def _hook(self) -> None:
        """Hook into every engine of this process."""
        for name, listener in self._listeners.items():
            event.listen(Engine, name, listener)

        def do_commit(dialect: Any, connection: Any) -> None:
            # COMMIT rolls an aborted transaction back, and reports nothing.
            is_aborted = connection.get_transaction_status() == TRANSACTION_STATUS_INERROR
            if not is_aborted and self._draw("conflicts", "COMMIT refused"):
                _refuse(connection)
            COMMIT(dialect, connection)
            if self._draw("losses", "COMMIT lost"):
                _lose(connection)

        PGDialect_psycopg2.do_commit = do_commit  # type: ignore[method-assign]
        db.retried = self._retried  # type: ignore[assignment]

    def _unhook(self) -> None:
        """Leave the engines to a test without faults, which may count the calls of functions."""
        for name, listener in self._listeners.items():
            event.remove(Engine, name, listener)
        Engine._has_events = False  # noqa: SLF001 - set by `listen`; an engine with listeners has its own
        PGDialect_psycopg2.do_commit = COMMIT  # type: ignore[method-assign]
        db.retried = retried

    def _retried(self, run: Any, breaker: DatabaseBreaker, *, most_lost: int = 1) -> Any:
        """Run work of a Database; `run` is its bound method with the work as the first argument."""
        work, before = self._work, (self._work.conflicts, self._work.losses, self._work.takes_next_rows)
        engine = run.func.__self__.engine
        is_on = self._is_on and not _is_listened_to(engine)
        losses = most_lost if is_on and _is_repeatable(run.args[0]) else 0
        keeps_result = not flask.has_request_context()
        work.conflicts, work.losses = MAX_CONFLICTS if is_on else 0, 0 if keeps_result else losses
        work.takes_next_rows = False
        try:
            result = retried(run, breaker, most_lost=most_lost)
            work.losses = losses if keeps_result and not _is_listened_to(engine) else 0
            if not work.takes_next_rows and self._draw("losses", "work repeated"):
                _repeat(run, breaker, most_lost)
            return result
        finally:
            work.conflicts, work.losses, work.takes_next_rows = before

    def _draw(self, kind: str, name: str) -> bool:
        """Return whether a fault happens here, and count it."""
        if not (left := getattr(self._work, kind)) or self._random.random() >= self.share:
            return False
        setattr(self._work, kind, left - 1)
        self.counts[name] += 1
        return True

    def _before_statement(self, cursor: Any, _statement: str, params: Any, *_: Any) -> None:
        self._work.takes_next_rows |= isinstance(params, Mapping) and "limit" in params
        if self._draw("conflicts", "statement refused"):
            cursor.execute(CONFLICT)

    def _before_hot_statement(
        self, _connection: Any, cursor: Any, statement: str, params: Any, context: Any, _many: bool
    ) -> None:
        if context is None:  # a statement of app.kernel.db.hot, which passes no `do_execute`
            self._before_statement(cursor, statement, params)

    def _after_statement(
        self, _connection: Any, cursor: Any, _statement: str, _params: Any, _context: Any, _many: bool
    ) -> None:
        """Lose the answer of a statement that has committed itself."""
        if self._work.losses and cursor.connection.autocommit and self._draw("losses", "statement lost"):
            _lose(cursor.connection)


def _is_listened_to(engine: Engine) -> bool:
    return any(getattr(engine.dispatch, name).listeners for name in LISTENED)


def _is_repeatable(work: Any) -> bool:
    """Return whether work may run twice: statements and transactions of tests may not."""
    while isinstance(work, partial):
        work = work.func
    is_transaction = callable(work) and not work.__module__.startswith("tests.")
    return is_transaction or isinstance(work, NamedStatement)


def _repeat(run: Any, breaker: DatabaseBreaker, most_lost: int) -> None:
    """Run finished work again, which may find that nothing is left to do and leave by an exception of its own."""
    try:
        retried(run, breaker, most_lost=most_lost)
    except (SQLAlchemyError, TaskExecutorError):
        raise
    except Exception:
        return


def _refuse(connection: Any) -> None:
    """Raise the conflict as a COMMIT does, which leaves no transaction behind."""
    try:
        connection.cursor().execute(CONFLICT)
    except psycopg2.Error:
        connection.rollback()
        raise


def _lose(connection: Any) -> None:
    connection.close()
    raise psycopg2.OperationalError(LOST)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("restarts")
    group.addoption("--restarts", type=float, default=0.05, help="share of statements and COMMITs with a fault")
    group.addoption("--restarts-seed", default=secrets.token_hex(4), help="seed of an earlier run, to repeat it")


def pytest_configure(config: pytest.Config) -> None:
    restarts = Restarts(config.option.restarts, config.option.restarts_seed)
    config.pluginmanager.register(restarts, "restarts-session")
