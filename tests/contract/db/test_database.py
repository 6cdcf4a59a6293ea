"""Statements by SQLSTATE of their error: retries, and the exception for the caller; waits for connections."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from app.kernel import db
from app.kernel.db import Database, deadline
from app.kernel.db.connection_pool import ShrinkingPool
from app.kernel.db.retries import MAX_LOCK_WAITS, MAX_TRIES
from app.kernel.db.startup import doubts, facts
from app.kernel.errors import LockedError, TimedOutError, UnavailableError
from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import STATEMENT_RETRIES
from tests.contract.races.racing import schedulers
from tests.job_costs import RecordingProxy
from tests.servers import Cluster


def raising(state: str) -> str:
    """Return a statement that counts its runs in a sequence, unaffected by rollbacks, and fails with a SQLSTATE."""
    return f"DO $$ BEGIN PERFORM nextval('runs'); RAISE EXCEPTION 'x' USING ERRCODE = '{state}'; END $$"


@pytest.fixture
def runs(database: Database) -> Callable[[], int]:
    if database.is_cockroach:
        pytest.skip("needs PL/pgSQL to fail on demand")
    database.fetch(text("CREATE SEQUENCE runs"))
    return lambda: int(database.fetch(text("SELECT last_value FROM runs"))[0].last_value)


@pytest.mark.own_faults  # counts the tries
@pytest.mark.parametrize(
    ("state", "tries", "error"),
    [
        ("40001", MAX_TRIES, UnavailableError),
        ("40P01", MAX_TRIES, UnavailableError),
        ("55P03", MAX_LOCK_WAITS, LockedError),
    ],
)
def test_conflict_is_retried_and_then_raises_unavailable(
    database: Database, runs: Callable[[], int], state: str, tries: int, error: type[UnavailableError]
) -> None:
    before = PROCESS.total(STATEMENT_RETRIES, state)
    with pytest.raises(error):
        database.fetch(text(raising(state)))
    assert runs() == tries
    assert PROCESS.total(STATEMENT_RETRIES, state) - before == tries - 1


@pytest.mark.parametrize(
    "state", ["40003", "53300", "57014", "08006", "25006", "58030", "58C00", "XXUUU", "0A000", "P0001"]
)
def test_unknown_outcome_raises_unavailable(database: Database, runs: Callable[[], int], state: str) -> None:
    with pytest.raises(UnavailableError, match="cannot be reached"):
        database.fetch(text(raising(state)), repeatable=False)
    assert runs() == 1


@pytest.mark.parametrize("state", ["22P02", "23514", "42P01", "54000"])
def test_error_caused_by_the_statement_is_raised_to_the_caller(
    database: Database, runs: Callable[[], int], caplog: pytest.LogCaptureFixture, state: str
) -> None:
    """An unknown table or a missing permission is also logged, for an operator."""
    with pytest.raises(DBAPIError):
        database.fetch(text(raising(state)))
    assert runs() == 1
    assert [record.levelname for record in caplog.records] == (["ERROR"] if state.startswith("42") else [])


def test_connection_to_a_read_only_server_is_replaced(database: Database, runs: Callable[[], int]) -> None:
    """After a failover the former primary still answers; a new connection reaches the new primary at its address."""
    backend = text("SELECT pg_backend_pid() AS pid")
    pool = db.connect(database.engine.url, pool_size=1, application_name="te-one")
    before = pool.fetch(backend)[0].pid
    with pytest.raises(UnavailableError):
        pool.fetch(text(raising("25006")), repeatable=False)
    assert pool.fetch(backend)[0].pid != before
    pool.close()


def test_error_shows_its_sqlstate_and_no_value(database: Database) -> None:
    """The server's own error text may contain the whole row."""
    if database.is_cockroach:
        pytest.skip("CockroachDB has other error texts")
    database.fetch(text("CREATE TABLE picky (a TEXT CHECK (a <> 'hunter2'), b BIGINT)"))
    for statement, params in [
        ("INSERT INTO picky VALUES (:a, 1)", {"a": "hunter2"}),
        ("SELECT CAST(:a AS BIGINT)", {"a": "hunter2"}),
        ("SELECT secret FROM nowhere WHERE a = :a", {"a": "hunter2"}),
    ]:
        with pytest.raises(DBAPIError) as caught:
            database.fetch(text(statement), params)
        shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(caught.value.orig)
        assert "hunter2" not in shown
        assert "SQLSTATE" in shown


@pytest.mark.postgresql_only
def test_dead_pooled_connection_is_replaced_without_an_error(database: Database, database_url: str) -> None:
    other = db.connect(database_url, pool_size=1, application_name="te-killer")
    database.fetch(text("SELECT 1"))
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'te-test'"
    other.fetch(text(kill))
    assert database.fetch(text("SELECT 2 AS two"))[0].two == 2
    other.close()


@pytest.mark.postgresql_only
def test_statement_that_is_not_repeatable_runs_once(database: Database, database_url: str) -> None:
    other = db.connect(database_url, pool_size=1, application_name="te-killer")
    database.fetch(text("SELECT 1"))
    other.fetch(text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'te-test'"))
    with pytest.raises(UnavailableError):
        database.fetch(text("SELECT 2"), repeatable=False)
    other.close()


def test_sessions_are_read_committed_in_utc(database: Database) -> None:
    show = {name: database.fetch(text(f"SHOW {name}"))[0][0] for name in ("transaction_isolation", "timezone")}
    assert show == {"transaction_isolation": "read committed", "timezone": "UTC"}


@contextmanager
def all_connections_in_use(database_url: str) -> Iterator[Database]:
    """Yield a pool of one connection, which another thread holds."""
    narrow = db.connect(database_url, pool_size=1, application_name="te-narrow", statement_timeout_seconds=2)
    taken, done = threading.Event(), threading.Event()

    def hold(_connection: Connection) -> None:
        taken.set()
        done.wait()

    holder = threading.Thread(target=lambda: narrow.transact(hold))
    holder.start()
    taken.wait()
    try:
        yield narrow
    finally:
        done.set()
        holder.join()
    assert narrow.fetch(text("SELECT 2 AS two"))[0].two == 2, "the connection is free again"
    narrow.close()


def test_wait_for_a_connection_ends_with_the_statement_timeout(database_url: str) -> None:
    with all_connections_in_use(database_url) as narrow, pytest.raises(UnavailableError, match="in use"):
        narrow.fetch(text("SELECT 1"))


def test_wait_for_a_connection_ends_with_the_deadline_of_the_request(database_url: str) -> None:
    """The pool's own timeout would raise UnavailableError, and would start again for each statement of the request."""
    with all_connections_in_use(database_url) as narrow:
        deadline.begin(0.1)
        try:
            with pytest.raises(TimedOutError):
                narrow.fetch(text("SELECT 1"))
        finally:
            deadline.end()


@pytest.mark.parametrize(("patience_seconds", "opened"), [(60.0, 1), (0.01, 2), (0.0, 2)])
def test_patient_pool_opens_a_connection_only_if_others_stay_in_use(
    database_url: str, patience_seconds: float, opened: int
) -> None:
    """A statement during a transaction waits for its connection, which is given back in between if it waits long."""
    ended, waiting = threading.Event(), threading.Event()
    database = db.connect(database_url, pool_size=3, application_name="te-patient", patience_seconds=patience_seconds)

    def hold(connection: Connection) -> None:
        connection.execute(text("SELECT 1"))
        waiting.set()
        assert ended.wait(60 if opened == 2 else 0.1) == (opened == 2)

    holder = threading.Thread(target=database.transact, args=[hold])
    with closing(database):
        holder.start()
        assert waiting.wait(60)
        database.fetch(text("SELECT 1"))
        ended.set()
        holder.join(60)
        pool: Any = database.engine.pool
        assert pool.checkedin() == opened


def burst(database: Database, size: int) -> None:
    """Run as many transactions at once as there are connections."""
    together = threading.Barrier(size)
    threads = [threading.Thread(target=database.transact, args=[lambda _: together.wait(60)]) for _ in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def test_connections_that_nobody_takes_for_long_are_closed(database_url: str) -> None:
    """A burst needs many connections; the statements after it take the same connection again and again."""
    with closing(db.connect(database_url, pool_size=3, application_name="te-burst")) as database:
        pool = database.engine.pool
        assert isinstance(pool, ShrinkingPool)
        burst(database, 3)
        assert pool.checkedin() == 3
        before = time.monotonic()
        database.fetch(text("SELECT 1"))
        pool.close_idle(before)
        assert pool.checkedin() == 1
        pool.close_idle(time.monotonic())
        assert pool.checkedin() == 1, "the next statement needs no new connection"
        burst(database, 3)
        assert pool.checkedin() == 3, "closed connections can be opened again"


def test_statement_calls_few_functions_of_the_service(database: Database) -> None:
    """Each function is one more jump for a reader. Calls inside SQLAlchemy and the driver are not counted."""
    select_one, called = text("SELECT 1"), set[str]()
    database.fetch(select_one)

    def note(frame: FrameType, event: str, _argument: object) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.partition(".")[0] in {"app", "schema"}:
            called.add(f"{module}.{frame.f_code.co_qualname}")

    sys.setprofile(note)
    try:
        database.fetch(select_one)
    finally:
        sys.setprofile(None)
    assert len(called) <= 6, sorted(called)
    assert "app.kernel.db.Database.fetch" in called


@pytest.mark.postgresql_only
def test_statement_that_hardly_waits_is_one_message_and_leaves_the_session_alone(
    database: Database, database_url: str
) -> None:
    database.fetch(text("CREATE TABLE counted AS SELECT 1 AS n"))
    count, lock_timeout = text("UPDATE counted SET n = n + :more RETURNING n"), text("SHOW lock_timeout")
    with RecordingProxy(urlsplit(database_url).port or 5432) as proxy:
        url = proxy.url(database_url)
        with closing(db.connect(url, pool_size=1, application_name="te-one")) as one:
            before = one.fetch(lock_timeout)
            proxy.sent.clear()
            assert one.fetch_unless_locked(count, {"more": 2})[0].n == 3
            assert proxy.sent.total() == 1, proxy.sent
            with database.engine.begin() as connection:
                connection.execute(text("SELECT n FROM counted FOR UPDATE"))
                with pytest.raises(LockedError):
                    one.fetch_unless_locked(count, {"more": 4})
            assert one.fetch(lock_timeout) == before
            assert one.fetch_unless_locked(count, {"more": 1})[0].n == 4


@pytest.mark.postgresql_only
def test_first_connection_looks_for_no_type_that_no_table_has(database_url: str) -> None:
    with RecordingProxy(urlsplit(database_url).port or 5432) as proxy:
        with closing(db.connect(proxy.url(database_url), pool_size=1, application_name="te-one")) as one:
            one.fetch(text("SELECT 2"))
        assert "SELECT ?" in proxy.sent
        assert [query for query in proxy.sent if "pg_type" in query] == []


@pytest.mark.parametrize("level", ["read committed", "serializable"])
def test_server_reports_its_version_and_the_isolation_level_of_transactions(
    cluster: Cluster, database_url: str, level: str
) -> None:
    with schedulers(database_url, level, 1) as (scheduler,):
        version, isolation = scheduler.transact(facts)
        is_cockroach = scheduler.is_cockroach and not cluster.imitates
        assert version.startswith("CockroachDB" if is_cockroach else "PostgreSQL")
        assert isolation == level
        assert scheduler.is_cockroach or doubts(scheduler) == []
