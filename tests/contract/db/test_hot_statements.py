"""Hot statements are prepared once per connection; otherwise they behave as the same statement under SQLAlchemy."""

import json
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from app.kernel import db
from app.kernel.db import Database
from app.kernel.db.hot import PlanTimes, run_in
from app.kernel.db.retries import MAX_LOCK_WAITS, MAX_TRIES, is_rows_fault
from app.kernel.errors import UnavailableError
from app.kernel.sql import HotStatement
from tests.cases import each_case

pytestmark = pytest.mark.own_faults  # counts the runs of statements, most of which fail
PREPARED = text("SELECT name, generic_plans FROM pg_prepared_statements ORDER BY name")
VALUES = """
    SELECT CAST(:one AS TEXT) AS one, CAST(:many AS TEXT[]) AS many, CAST(:number AS BIGINT) AS number,
           CAST(:numbers AS BIGINT[]) AS numbers, CAST(:at AS TIMESTAMPTZ) AS at,
           CAST(:instants AS TIMESTAMPTZ[]) AS instants, CAST(:json AS JSONB) AS json, 7 % 4 AS rest, '100 %' AS percent
"""
NOTHING = dict.fromkeys(("one", "many", "number", "numbers", "at", "instants", "json"))
NOON = datetime(2026, 3, 1, 12, 0, 0, 1, UTC)
HOSTILE = ["", "NULL", "{}", '"', "'", "\\", '\\"', "a,b", "%s", "%(one)s", "$1", "\n", "é", "\U0001f600"]


@pytest.fixture
def pool(database: Database, database_url: str) -> Iterator[Database]:
    """A pool of one connection, so that each statement runs where the previous statement was prepared."""
    if database.is_cockroach:
        pytest.skip("hot statements are not prepared on CockroachDB")
    pool = db.connect(database_url, pool_size=1, application_name="te-one")
    yield pool
    pool.close()


@pytest.fixture
def failing(pool: Database) -> HotStatement:
    """A statement that counts its runs in a sequence, unaffected by rollbacks, and fails with a SQLSTATE."""
    pool.fetch(text("CREATE SEQUENCE runs"))
    body = "BEGIN PERFORM nextval('runs'); RAISE EXCEPTION 'x' USING ERRCODE = state; END"
    pool.fetch(text(f"CREATE FUNCTION fail(state TEXT) RETURNS BIGINT LANGUAGE plpgsql AS $${body}$$"))
    return HotStatement("test.fails", "SELECT fail(CAST(:state AS TEXT))")


def runs(pool: Database) -> int:
    return int(pool.fetch(text("SELECT last_value FROM runs"))[0].last_value)


def prepared(pool: Database) -> dict[str, int]:
    """Return the names of the connection's prepared statements, and how often each ran with its cached plan."""
    return {row.name: row.generic_plans for row in pool.fetch(PREPARED)}


@each_case(
    "given",
    [
        {},
        {"one": "\\'\"%{}$1é", "many": HOSTILE, "numbers": [1, -(2**62)], "instants": [NOON, None]},
        {"many": [None, "a", None], "number": 2**62, "at": NOON, "numbers": [3, None]},
        {"many": [None], "numbers": [], "instants": [], "json": json.dumps({"a": [1e300, 2**120, "\\"], "é": None})},
        {"many": [], "numbers": [None, None], "instants": [None]},
    ],
    ids=["nothing", "hostile", "some", "json", "values without a type"],
)
def test_values_are_sent_and_returned_as_with_sqlalchemy(pool: Database, given: dict[str, Any]) -> None:
    params = NOTHING | given
    (expected,) = pool.fetch(text(VALUES), params)
    hot = HotStatement("test.values", VALUES)
    for _ in range(2):
        (found,) = pool.fetch(hot, params)
        assert found._asdict() == expected._asdict()
        assert (found.one, found.many, found.json) == (expected.one, expected.many, expected.json)
    assert [type(value) for value in found] == [type(value) for value in expected]


REFUSED: list[dict[str, Any]] = [
    {"one": "\0"},
    {"many": ["\0"]},
    {"one": "\ud800"},
    {"many": ["\ud800"]},
    {"json": "{"},
    {"json": '"\\u0000"'},
    {"number": "hunter2"},
    {"numbers": ["hunter2"]},
    {"number": 2**70},
    {"at": "hunter2"},
]


@pytest.mark.parametrize("given", REFUSED)  # each with a connection of its own: a refusal may end its preparing
def test_value_is_refused_as_with_sqlalchemy_and_not_shown(pool: Database, given: dict[str, Any]) -> None:
    caught = []
    hot = HotStatement("test.values", VALUES)
    pool.fetch(hot, NOTHING)
    for statement in (text(VALUES), hot):
        with pytest.raises(Exception) as error:  # noqa: PT011 - the types are compared below
            pool.fetch(statement, NOTHING | given)
        caught.append(error.value)
    expected, found = caught
    assert type(found) is type(expected)
    assert is_rows_fault(found)
    if isinstance(found, DBAPIError):
        assert str(found.orig) == str(expected.orig)
        shown = "".join(traceback.format_exception(found)) + repr(found)
        assert "hunter2" not in shown
    assert pool.fetch(hot, NOTHING)[0].rest == 3
    assert len(prepared(pool)) == 1


def test_statement_is_prepared_once_and_planned_once(pool: Database) -> None:
    hot, other = HotStatement("test.hot", "SELECT CAST(:n AS BIGINT) AS n"), HotStatement("test.hot", "SELECT 1 AS n")
    assert [pool.fetch(hot, {"n": n})[0].n for n in range(9)] == list(range(9))
    assert list(prepared(pool).values()) == [9]
    pool.fetch(other)
    assert len(prepared(pool)) == 2, (
        "the same name with another text, as another release could have, is prepared separately"
    )


def test_run_that_plans_is_not_a_reason_to_plan_again(pool: Database) -> None:
    """PostgreSQL evaluates an immutable function when it plans, so a sequence counts the plans."""
    pool.fetch(text("CREATE SEQUENCE runs"))
    body = "BEGIN RETURN nextval('runs'); END"
    pool.fetch(text(f"CREATE FUNCTION planned() RETURNS BIGINT IMMUTABLE LANGUAGE plpgsql AS $${body}$$"))
    pool.plan_times = PlanTimes(slow_seconds=0.0, kept_seconds=0.0)
    hot = HotStatement("test.planned", "SELECT planned() AS number")
    numbers = [pool.fetch(hot)[0].number for _ in range(7)]
    assert numbers == [1, 1, 1, 2, 2, 2, 3], "two slow runs with a kept plan, and only these, make the next run plan"
    pool.plan_times = PlanTimes(slow_seconds=3600.0, kept_seconds=0.0)
    assert [pool.fetch(hot)[0].number for _ in range(2)] == [3, 3]


def test_new_connection_prepares_the_statement_again(pool: Database, database: Database) -> None:
    hot = HotStatement("test.hot", "SELECT CAST(:n AS BIGINT) AS n")
    pool.fetch(hot, {"n": 1})
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'te-one'"
    database.fetch(text(kill))
    assert pool.fetch(hot, {"n": 2})[0].n == 2
    assert list(prepared(pool).values()) == [1]
    database.fetch(text(kill))
    with pytest.raises(UnavailableError):
        pool.fetch(hot, {"n": 2}, repeatable=False)


def deallocated(pool: Database) -> None:
    """Drop the prepared statements, as if a pooler had switched to another server connection."""
    pool.fetch(text("DEALLOCATE ALL"))


def already_prepared(pool: Database) -> None:
    """Forget the prepared statement in the client only, as if another client had prepared it on this connection."""
    with pool.engine.connect() as connection:
        connection.info.clear()


def migrated(pool: Database) -> None:
    """Add a column, so that the cached plan no longer matches the columns of the result."""
    pool.fetch(text("ALTER TABLE counted ADD COLUMN more BIGINT"))


@pytest.mark.parametrize("change", [deallocated, already_prepared, migrated])
def test_statement_runs_once_although_its_preparation_changed(
    pool: Database, change: Callable[[Database], None]
) -> None:
    pool.fetch(text("CREATE TABLE counted (n BIGINT)"))
    hot = HotStatement("test.hot", "INSERT INTO counted VALUES (CAST(:n AS BIGINT)) RETURNING *")
    pool.fetch(hot, {"n": 1}, repeatable=False)
    change(pool)
    for n in (2, 3):
        assert pool.fetch(hot, {"n": n}, repeatable=False)[0].n == n
    assert [row.n for row in pool.fetch(text("SELECT n FROM counted"))] == [1, 2, 3]


@pytest.mark.parametrize("change", [deallocated, already_prepared, migrated])
def test_transaction_runs_again_if_a_preparation_changed(pool: Database, change: Callable[[Database], None]) -> None:
    pool.fetch(text("CREATE TABLE counted (n BIGINT)"))
    hot = HotStatement("test.hot", "INSERT INTO counted VALUES (CAST(:n AS BIGINT)) RETURNING *")

    def insert(connection: Connection, n: int) -> list[int]:
        connection.execute(text("INSERT INTO counted VALUES (0)"))
        return [row.n for row in run_in(connection, hot, {"n": n})]

    assert pool.transact(partial(insert, n=1)) == [1]
    assert len(prepared(pool)) == 1
    change(pool)
    for n in (2, 3):
        assert pool.transact(partial(insert, n=n)) == [n]
    assert [row.n for row in pool.fetch(text("SELECT n FROM counted"))] == [0, 1, 0, 2, 0, 3]


@pytest.mark.parametrize(
    ("state", "tries", "expected"),
    [("40001", MAX_TRIES, UnavailableError), ("55P03", MAX_LOCK_WAITS, UnavailableError)]
    + [(state, 1, UnavailableError) for state in ("40003", "57014", "08006", "25006", "XXUUU")]
    + [(state, 1, DBAPIError) for state in ("22P02", "23514", "42P01", "54000")],
)
def test_error_is_raised_as_with_sqlalchemy(
    pool: Database, failing: HotStatement, state: str, tries: int, expected: type[Exception]
) -> None:
    with pytest.raises(expected):
        pool.fetch(failing, {"state": state}, repeatable=False)
    assert runs(pool) == tries


def test_lost_connection_closes_all_older_connections(database: Database, failing: HotStatement) -> None:
    """After a failover all older connections lead to the former primary."""
    backend = text("SELECT pg_backend_pid() AS pid")
    first = database.transact(lambda connection: (database.fetch(backend)[0].pid, connection.scalar(backend)))
    with pytest.raises(UnavailableError):
        database.fetch(failing, {"state": "25006"}, repeatable=False)
    later = database.transact(lambda connection: (database.fetch(backend)[0].pid, connection.scalar(backend)))
    assert not set(first) & set(later)


def test_statement_is_rolled_back_with_its_transaction(pool: Database) -> None:
    pool.fetch(text("CREATE TABLE counted (n BIGINT)"))
    hot = HotStatement("test.hot", "INSERT INTO counted VALUES (CAST(:n AS BIGINT)) RETURNING n")

    def body() -> None:
        assert pool.fetch(hot, {"n": 1})[0].n == 1
        raise KeyError

    with pytest.raises(KeyError):
        pool.transact_jointly(body)
    assert pool.fetch(text("SELECT n FROM counted")) == []
