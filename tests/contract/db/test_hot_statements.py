"""Hot statements: prepared once per connection, and in all else as the same statement run by SQLAlchemy."""

import json
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.kernel import db
from app.kernel.db import Database
from app.kernel.db.retries import MAX_LOCK_WAITS, MAX_TRIES, is_rows_fault
from app.kernel.errors import UnavailableError
from app.kernel.sql import HotStatement

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
def one(database: Database, database_url: str) -> Iterator[Database]:
    """A pool of one connection, so that each statement meets what the one before has prepared."""
    if database.is_cockroach:
        pytest.skip("prepares nothing there")
    found = db.connect(database_url, pool_size=1, application_name="te-one")
    yield found
    found.close()


@pytest.fixture
def fails(one: Database) -> HotStatement:
    """Counts its runs in a sequence, which no rollback takes back, and fails with a SQLSTATE."""
    one.fetch(text("CREATE SEQUENCE runs"))
    body = "BEGIN PERFORM nextval('runs'); RAISE EXCEPTION 'x' USING ERRCODE = state; END"
    one.fetch(text(f"CREATE FUNCTION fail(state TEXT) RETURNS BIGINT LANGUAGE plpgsql AS $${body}$$"))
    return HotStatement("test.fails", "SELECT fail(CAST(:state AS TEXT))")


def runs(one: Database) -> int:
    return int(one.fetch(text("SELECT last_value FROM runs"))[0].last_value)


def prepared(one: Database) -> dict[str, int]:
    """The names of what its connection has prepared, and how often each ran by the plan that is kept."""
    return {row.name: row.generic_plans for row in one.fetch(PREPARED)}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"one": "\\'\"%{}$1é", "many": HOSTILE, "numbers": [1, -(2**62)], "instants": [NOON, None]},
        {"many": [None, "a", None], "number": 2**62, "at": NOON, "numbers": [3, None]},
        {"many": [None], "numbers": [], "instants": [], "json": json.dumps({"a": [1e300, 2**120, "\\"], "é": None})},
        {"many": [], "numbers": [None, None], "instants": [None]},
    ],
    ids=["nothing", "hostile", "some", "json", "no type to see"],
)
def test_values_go_and_come_as_with_sqlalchemy(one: Database, given: dict[str, Any]) -> None:
    params = NOTHING | given
    (expected,) = one.fetch(text(VALUES), params)
    hot = HotStatement("test.values", VALUES)
    for _ in range(2):
        (found,) = one.fetch(hot, params)
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


@pytest.mark.parametrize("given", REFUSED, ids=repr)
def test_a_value_is_refused_as_with_sqlalchemy_and_told_to_nobody(one: Database, given: dict[str, Any]) -> None:
    caught = []
    hot = HotStatement("test.values", VALUES)
    one.fetch(hot, NOTHING)
    for statement in (text(VALUES), hot):
        with pytest.raises(Exception) as error:  # noqa: PT011 - which one is compared
            one.fetch(statement, NOTHING | given)
        caught.append(error.value)
    expected, found = caught
    assert type(found) is type(expected)
    assert is_rows_fault(found)
    if isinstance(found, DBAPIError):
        assert str(found.orig) == str(expected.orig)
        shown = "".join(traceback.format_exception(found)) + repr(found)
        assert "hunter2" not in shown
    assert one.fetch(hot, NOTHING)[0].rest == 3
    assert len(prepared(one)) == 1


def test_it_is_prepared_once_and_planned_once(one: Database) -> None:
    hot, other = HotStatement("test.hot", "SELECT CAST(:n AS BIGINT) AS n"), HotStatement("test.hot", "SELECT 1 AS n")
    assert [one.fetch(hot, {"n": n})[0].n for n in range(9)] == list(range(9))
    assert list(prepared(one).values()) == [9]
    one.fetch(other)
    assert len(prepared(one)) == 2, "another release has another text of that name"


def test_a_new_connection_prepares_anew(one: Database, database: Database) -> None:
    hot = HotStatement("test.hot", "SELECT CAST(:n AS BIGINT) AS n")
    one.fetch(hot, {"n": 1})
    kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'te-one'"
    database.fetch(text(kill))
    assert one.fetch(hot, {"n": 2})[0].n == 2
    assert list(prepared(one).values()) == [1]
    database.fetch(text(kill))
    with pytest.raises(UnavailableError):
        one.fetch(hot, {"n": 2}, repeatable=False)


def replaced(one: Database) -> None:
    """What a pooler does that hands connections around: this one is without what was prepared."""
    one.fetch(text("DEALLOCATE ALL"))


def taken(one: Database) -> None:
    """The opposite: it has been prepared on this connection for somebody else."""
    with one.engine.connect() as connection:
        connection.info.clear()


def migrated(one: Database) -> None:
    """The plan that is kept would return other columns."""
    one.fetch(text("ALTER TABLE counted ADD COLUMN more BIGINT"))


@pytest.mark.parametrize("change", [replaced, taken, migrated])
def test_what_is_not_prepared_any_more_runs_once_all_the_same(
    one: Database, change: Callable[[Database], None]
) -> None:
    one.fetch(text("CREATE TABLE counted (n BIGINT)"))
    hot = HotStatement("test.hot", "INSERT INTO counted VALUES (CAST(:n AS BIGINT)) RETURNING *")
    one.fetch(hot, {"n": 1}, repeatable=False)
    change(one)
    for n in (2, 3):
        assert one.fetch(hot, {"n": n}, repeatable=False)[0].n == n
    assert [row.n for row in one.fetch(text("SELECT n FROM counted"))] == [1, 2, 3]


@pytest.mark.parametrize(
    ("state", "tries", "expected"),
    [("40001", MAX_TRIES, UnavailableError), ("55P03", MAX_LOCK_WAITS, UnavailableError)]
    + [(state, 1, UnavailableError) for state in ("40003", "57014", "08006", "25006", "XXUUU")]
    + [(state, 1, DBAPIError) for state in ("22P02", "23514", "42P01", "54000")],
)
def test_an_error_ends_as_with_sqlalchemy(
    one: Database, fails: HotStatement, state: str, tries: int, expected: type[Exception]
) -> None:
    with pytest.raises(expected):
        one.fetch(fails, {"state": state}, repeatable=False)
    assert runs(one) == tries


def test_a_lost_connection_takes_those_that_are_older_with_it(database: Database, fails: HotStatement) -> None:
    """After a failover all of them lead to the old primary."""
    backend = text("SELECT pg_backend_pid() AS pid")
    first = database.transact(lambda connection: (database.fetch(backend)[0].pid, connection.scalar(backend)))
    with pytest.raises(UnavailableError):
        database.fetch(fails, {"state": "25006"}, repeatable=False)
    later = database.transact(lambda connection: (database.fetch(backend)[0].pid, connection.scalar(backend)))
    assert not set(first) & set(later)


def test_it_belongs_to_the_transaction_that_it_is_part_of(one: Database) -> None:
    one.fetch(text("CREATE TABLE counted (n BIGINT)"))
    hot = HotStatement("test.hot", "INSERT INTO counted VALUES (CAST(:n AS BIGINT)) RETURNING n")

    def body() -> None:
        assert one.fetch(hot, {"n": 1})[0].n == 1
        raise KeyError

    with pytest.raises(KeyError):
        one.transact_jointly(body)
    assert one.fetch(text("SELECT n FROM counted")) == []
