"""Open databases: the next test gets the connection of an earlier test, unless that test has changed the database."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, event, text

from app.kernel.db import Database
from app.kernel.db.hot import PlanTimes
from tests.open_databases import OpenDatabases

pytestmark = pytest.mark.own_faults  # which could end the connection

PID = text("SELECT pg_backend_pid() AS pid")
TIMEOUT = text("SHOW statement_timeout")
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


@pytest.mark.parametrize("change", [nothing, close, use_two_connections])
def test_next_test_gets_the_open_connection(
    lender: OpenDatabases, database_url: str, change: Callable[[Database], object]
) -> None:
    database, process_id = lent(lender, database_url, change)
    (kept,) = lender.connections(database_url)
    assert database.engine.pool.checkedin() == 1  # type: ignore[attr-defined]
    assert change is use_two_connections or kept == process_id
    assert lent(lender, database_url, nothing) == (database, kept)


def test_settings_of_a_connection_are_reset(lender: OpenDatabases, database_url: str) -> None:
    first = lent(lender, database_url, lambda database: database.fetch(text("SET statement_timeout = 7")))
    with lender.lend(database_url, pool_size=2, application_name="te-test") as again:
        assert (again, again.fetch(PID)[0].pid) == first
        assert again.fetch(TIMEOUT)[0][0] == "10s"


def listen(database: Database) -> None:
    event.listen(database.engine, "before_cursor_execute", lambda *_: None)


@pytest.mark.parametrize(
    "change",
    [
        listen,
        lambda database: HELD.append(database.engine.connect()),
        lambda database: database.engine.dispose(),
        lambda database: setattr(database, "regions", ["eu"]),
        lambda database: setattr(database, "plan_times", PlanTimes(kept_seconds=0)),
    ],
)
def test_changed_database_is_closed(
    lender: OpenDatabases, database_url: str, change: Callable[[Database], object]
) -> None:
    first, process_id = lent(lender, database_url, change)
    assert lender.connections(database_url) == set()
    again, other_id = lent(lender, database_url, nothing)
    assert again is not first
    assert other_id != process_id
    for connection in HELD:
        connection.close()


def test_database_of_one_test_is_closed(lender: OpenDatabases, empty_database_url: str) -> None:
    """Only databases that were added are lent again."""
    _, process_id = lent(lender, empty_database_url, nothing)
    assert lent(lender, empty_database_url, nothing)[1] != process_id
