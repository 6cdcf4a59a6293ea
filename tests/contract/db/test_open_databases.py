"""Open databases: the next test gets the connection of an earlier test, unless that test has changed the database."""

from collections.abc import Callable, Iterator

import pytest
from psycopg2 import OperationalError
from sqlalchemy import Connection, event, text

from app.kernel.db import Database
from app.kernel.db.fire_and_forget import LASTS_SECONDS
from app.kernel.db.hot import PlanTimes
from tests.open_databases import OpenDatabases

pytestmark = pytest.mark.own_faults  # which could end the connection

PID = text("SELECT pg_backend_pid() AS pid")
TIMEOUT = text("SHOW statement_timeout")
EVENTS = ["before_cursor_execute", "rollback", "checkin", "do_execute"]  # of the engine, its pool and its dialect
HELD: list[Connection] = []


@pytest.fixture
def lender(database_url: str) -> Iterator[OpenDatabases]:
    lender = OpenDatabases()
    lender.add(database_url)
    yield lender
    lender.close(database_url)


def lent(lender: OpenDatabases, url: str, change: Callable[[Database], object]) -> tuple[Database, int]:
    """Borrow the database of a test that makes a change; return the database and the server's process before that."""
    with lender.lend(url, pool_size=2, application_name="te-test") as database:
        process_id = database.fetch(PID)[0].pid
        change(database)
    return database, process_id


def nothing(_database: Database) -> None:
    pass


def close(database: Database) -> None:
    database.close()


def use_two_connections(database: Database) -> None:
    with database.engine.connect(), database.engine.connect():
        pass


def change_attributes(database: Database) -> None:
    database.regions, database.plan_times = ["eu"], PlanTimes(kept_seconds=0)
    database.fire_and_forget.lasts_seconds = 0
    with pytest.raises(OperationalError):
        database.fire_and_forget.open({"port": 1})


@pytest.mark.parametrize("change", [nothing, close, use_two_connections, change_attributes])
def test_next_test_gets_the_open_connection(
    lender: OpenDatabases, database_url: str, change: Callable[[Database], object]
) -> None:
    database, process_id = lent(lender, database_url, change)
    (kept,) = lender.connections(database_url)
    assert change is use_two_connections or kept == process_id
    with lender.lend(database_url, pool_size=2, application_name="te-test") as again:
        assert again is not database
        assert again.engine.pool.checkedin() == 1  # type: ignore[attr-defined]
        assert again.fetch(PID)[0].pid == kept
        assert (again.regions, again.plan_times) == (None, PlanTimes())
        assert (again.fire_and_forget.is_wanting, again.fire_and_forget.lasts_seconds) == (True, LASTS_SECONDS)


def test_thread_left_by_a_test_fails_and_reaches_no_other_test(lender: OpenDatabases, database_url: str) -> None:
    database, process_id = lent(lender, database_url, nothing)
    uses: list[Callable[[], object]] = [
        lambda: database.fetch(PID),
        lambda: database.transact(lambda connection: connection.execute(PID)),
        database.open_fire_and_forget,
        lambda: database.is_cockroach,
    ]
    with lender.lend(database_url, pool_size=2, application_name="te-test") as again:
        for use in uses:
            with pytest.raises(RuntimeError, match="has returned this database"):
                use()
        assert again.fetch(PID)[0].pid == process_id


def test_settings_of_a_connection_are_reset(lender: OpenDatabases, database_url: str) -> None:
    lent(lender, database_url, lambda database: database.fetch(text("SET statement_timeout = 7")))
    with lender.lend(database_url, pool_size=2, application_name="te-test") as again:
        assert again.fetch(TIMEOUT)[0][0] == "10s"


@pytest.mark.postgresql_only
def test_session_of_a_connection_is_reset(lender: OpenDatabases, database_url: str) -> None:
    changes = "SELECT pg_advisory_lock(7); LISTEN x; CREATE TEMP TABLE left_behind (); SET ROLE pg_monitor"
    user = text("SELECT current_user")
    before: list[object] = []

    def change(database: Database) -> None:
        before.extend(database.fetch(user))
        database.fetch(text(changes))

    _, process_id = lent(lender, database_url, change)
    with lender.lend(database_url, pool_size=2, application_name="te-test") as again:
        assert again.fetch(PID)[0].pid == process_id
        assert again.fetch(user) == before
        assert again.fetch(text("SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND objid = 7")) == []
        assert again.fetch(text("SELECT pg_listening_channels()")) == []
        assert again.fetch(text("SELECT to_regclass('pg_temp.left_behind')"))[0][0] is None


@pytest.mark.parametrize(
    "change",
    [
        *(lambda database, name=name: event.listen(database.engine, name, lambda *_: None) for name in EVENTS),
        lambda database: HELD.append(database.engine.connect()),
        lambda database: database.engine.dispose(),
        lambda database: vars(database)["_free"].acquire(),
        lambda database: vars(database)["_breaker"].trip(),
        lambda database: setattr(vars(database)["_stalled"], "idle_seconds", 1.0),
    ],
)
def test_changed_database_is_closed(
    lender: OpenDatabases, database_url: str, change: Callable[[Database], object]
) -> None:
    _, process_id = lent(lender, database_url, change)
    assert lender.connections(database_url) == set()
    assert lent(lender, database_url, nothing)[1] != process_id
    for connection in HELD:
        connection.close()


def test_database_of_one_test_is_closed(lender: OpenDatabases, empty_database_url: str) -> None:
    """Only databases that were added are lent again."""
    _, process_id = lent(lender, empty_database_url, nothing)
    assert lent(lender, empty_database_url, nothing)[1] != process_id
