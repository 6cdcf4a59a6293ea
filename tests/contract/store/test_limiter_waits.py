"""ExecutionsLimiterBackend while the database, or another statement, lets it wait: turns, interrupts and patience."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from urllib.parse import quote, urlsplit

import psycopg
import pytest
from dramatiq.errors import BrokerConnectionError
from dramatiq.middleware.threading import raise_thread_exception
from sqlalchemy import text
from task_executor_dramatiq import ExecutionsLimiterBackend, TaskExecutorBroker, limits
from task_executor_dramatiq.in_hand import Abort

from app.kernel.db import Database
from tests.enqueue_caller import PASSWORD, calling
from tests.thread_frames import frames_by_thread
from tests.waiting import HUNG_SECONDS, eventually

pytestmark = pytest.mark.postgresql_only
TTL = 60_000
GRANT = "GRANT EXECUTE ON FUNCTION te_limiter_add, te_limiter_change, te_limiter_value TO {}"
BLOCKED = text(
    "SELECT pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND query LIKE '%te_limiter_change%' AND wait_event_type = 'Lock'"
)


@contextmanager
def limiting(url: str) -> Iterator[ExecutionsLimiterBackend]:
    backend = ExecutionsLimiterBackend(TaskExecutorBroker(url=url, worker="unix:/nowhere"))
    yield backend
    backend.close()


@pytest.fixture
def backend(database_url: str) -> Iterator[ExecutionsLimiterBackend]:
    with limiting(database_url) as backend:
        yield backend


@contextmanager
def one_blocked(backend: ExecutionsLimiterBackend, database: Database, database_url: str) -> Iterator[None]:
    """A thread whose statement waits for a row that another transaction has locked, until the end."""
    backend.add("locked", 1, TTL)
    with ThreadPoolExecutor(1) as pool:
        with psycopg.connect(database_url) as blocker:
            blocker.execute("SELECT 1 FROM limiter_values WHERE key = 'locked' FOR UPDATE")
            change = pool.submit(backend.incr, "locked", 1, 2, TTL)
            eventually(lambda: database.fetch(BLOCKED), what="the wait")
            yield
        assert change.result(60)


def turn_of(thread: threading.Thread) -> str:
    """Return the function of Python that a thread runs."""
    return frames_by_thread()[thread.ident or 0].f_code.co_name


def test_others_have_their_turn_while_a_statement_waits(
    backend: ExecutionsLimiterBackend, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STATEMENT_SECONDS", 1)
    with one_blocked(backend, database, database_url), ThreadPoolExecutor(1) as pool:
        assert pool.submit(backend.add, "other", 1, TTL).result(30)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_process_that_is_forked_during_a_statement_has_its_turn(
    backend: ExecutionsLimiterBackend, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread with the turn exists in the parent only, so nothing would end its turn in the child."""
    with one_blocked(backend, database, database_url):
        if (process := os.fork()) == 0:
            status = 1
            try:
                monkeypatch.setattr(limits, "PATIENCE_SECONDS", 1)
                status = 0 if backend.add("other", 1, TTL) else 2
                backend.close()
            finally:
                os._exit(status)
        _, ended = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(ended) == 0
    assert not backend.add("other", 1, TTL)


def test_thread_that_waits_for_its_turn_can_be_interrupted(
    backend: ExecutionsLimiterBackend, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STATEMENT_SECONDS", int(10 * HUNG_SECONDS))  # the turn comes later
    ended = threading.Event()

    def wait() -> None:
        try:
            backend.add("other", 1, TTL)
        except Abort:
            ended.set()

    with one_blocked(backend, database, database_url):
        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        assert thread.ident
        eventually(lambda: turn_of(thread) == "run_until", what="the wait for a turn")
        raise_thread_exception(thread.ident, Abort)
        assert ended.wait(HUNG_SECONDS)
    assert backend.add("other", 1, TTL)


@pytest.mark.timeout(2 * HUNG_SECONDS)
def test_timeout_of_a_wait_holds_while_the_database_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PATIENCE_SECONDS", 10 * HUNG_SECONDS)
    with (
        limiting("postgresql://127.0.0.1:1/none") as backend,
        pytest.raises(BrokerConnectionError, match=r"^the database does not answer: "),
    ):
        backend.wait("k", 100)


@pytest.mark.parametrize("is_at_end", [False, True])
def test_old_primary_is_waited_for_and_without_a_bound_at_the_end_of_a_message(
    database: Database,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_at_end: bool,
) -> None:
    """Without the answer, Dramatiq would go on, and the callback of a group be lost."""
    with calling(database, database_url) as caller:
        caller.run(GRANT.format(caller.name))
        netloc = f"{caller.name}:{quote(PASSWORD)}@{urlsplit(database_url).netloc.rpartition('@')[2]}"
        with (
            limiting(urlsplit(database_url)._replace(netloc=netloc).geturl()) as backend,
            ThreadPoolExecutor(1) as pool,
        ):
            assert backend.add("k", 2, TTL)
            backend.close()
            caller.run(f"ALTER ROLE {caller.name} SET default_transaction_read_only = on")
            if is_at_end:
                monkeypatch.setattr(limits, "PATIENCE_SECONDS", 0.0)
                monkeypatch.setattr(TaskExecutorBroker, "message_that_ends", SimpleNamespace(key=(7,)))
            change = pool.submit(backend.decr, "k", 1, 1, TTL)
            eventually(lambda: "a limiter waits" in caplog.text, what="the refusal")
            caller.run(f"ALTER ROLE {caller.name} SET default_transaction_read_only = off")
            assert change.result(30)
