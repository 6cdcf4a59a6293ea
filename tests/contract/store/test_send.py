"""te_send: registers the same inline endpoint and creates the same job as `POST /jobs` with a `url`."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from marshmallow import ValidationError
from sqlalchemy import text
from task_executor_client.transaction import Enqueued, EnqueueError, send

from app.catalog import routing
from app.catalog.endpoints.inline import InlineEndpoints, inline_endpoint
from app.catalog.retry_policy.matchers import RETRIED_ERRORS
from app.catalog.routing import Route
from app.kernel.audit import Actor
from app.kernel.db import Database
from app.kernel.errors import TaskExecutorError
from app.kernel.formats import canonical_json
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_model import NewJob
from schema.inline_bounds import MATCHER
from schema.states import Trigger
from tests.enqueueing import adopt_settings
from tests.inline_definitions import FAULTS, LATE_FAULTS, URL, VALID
from tests.racing import at_once

pytestmark = pytest.mark.postgresql_only

SECRET = text("INSERT INTO secrets (name, encrypted_value) VALUES (:name, 'x') RETURNING name")
TABLES = ("executions", "jobs", "endpoint_versions", "endpoints", "audit_log")
# Columns whose values differ from job to job.
OWN = {"job_id", "execution_id", "audit_id", "idempotency_key", "run_at", "scheduled_at", "expires_at"}
OWN |= {"created_at", "updated_at", "occurred_at", "actor_name"}


@pytest.fixture
def database(database: Database) -> Database:
    adopt_settings(database)
    for name in ("hook", "hook.before"):
        database.fetch(SECRET, {"name": name})
    return database


@pytest.fixture
def connection(database_url: str) -> Iterator[Any]:
    with closing(psycopg2.connect(database_url)) as opened:
        yield opened


def post(database: Database, given: dict[str, Any]) -> str:
    """Create a job as `POST /jobs` does, and return the name of its endpoint."""
    inline = inline_endpoint({"url": URL} | given, sends_body="body" in given)
    body = {"body": given["body"]} if "body" in given else {}
    registry = InlineEndpoints(100, 300_000)
    new = NewJob(
        endpoint=inline.name,
        trigger=Trigger.IMMEDIATE,
        idempotency_key="k",
        input=body,
        labels={},
        inline=inline,
        by=Actor("a"),
    )
    Creator(database, shards=1, look_ahead_ms=5000, inline=registry).create(new)
    return inline.name


def take(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Delete the rows of each table, and return them without the columns that differ."""
    found = {}
    for table in TABLES:
        rows = database.fetch(text(f"DELETE FROM {table} WHERE TRUE RETURNING *"))
        found[table] = [{name: value for name, value in row._asdict().items() if name not in OWN} for row in rows]
    return found


def test_te_send_writes_the_same_rows_as_the_api(database: Database, connection: Any) -> None:
    routing.adopt(
        database, [Route("other-*", "a"), Route("inline-*[", "b"), Route("*inline-?*", "routed"), Route("*", "c")]
    )
    take(database)
    for given in VALID:
        assert send(connection, **({"url": URL} | given)).is_new
        connection.commit()
        by_sql = take(database)
        post(database, given)
        assert by_sql == take(database)
        assert [len(rows) for rows in by_sql.values()] == [1, 1, 1, 1, 1]
        assert by_sql["executions"][0]["queue"] == "routed"


def test_both_refuse_the_same_definitions(database: Database, connection: Any) -> None:
    for given, pointers in (*FAULTS, *LATE_FAULTS):
        with pytest.raises((TaskExecutorError, ValidationError)):
            post(database, given)
        with pytest.raises(EnqueueError) as refused:
            send(connection, **({"url": URL} | given))
        connection.rollback()
        assert refused.value.code in {"INVALID_REQUEST", "TEMPLATE_RESOLUTION_FAILED"}
        assert refused.value.message.partition(":")[0].split("/")[0] == pointers[0].split("/")[1]
        assert len(refused.value.message) < 250


def test_every_error_of_a_delivery_is_a_matcher() -> None:
    assert all(MATCHER.fullmatch(error) for error in (*RETRIED_ERRORS, "1xx", "5xx"))


def test_host_outside_of_ascii_is_refused(database: Database, connection: Any) -> None:
    with pytest.raises(EnqueueError, match="xn--"):
        send(connection, "https://bücher.example/")


def test_equal_definitions_share_an_endpoint(database: Database, connection: Any, database_url: str) -> None:
    def attempt() -> Enqueued:
        with closing(psycopg2.connect(database_url)) as own:
            found = send(own, URL, {"a": 1}, headers={"B": "1", "A": "2"})
            own.commit()
            return found

    send(connection, URL, {"a": 1})
    connection.rollback()
    assert database.fetch(text("SELECT name FROM endpoints WHERE name LIKE 'inline-%'")) == []
    assert all(found.is_new for found in at_once(*[attempt] * 4))
    rows = database.fetch(text("SELECT endpoint, count(*) AS jobs FROM jobs GROUP BY endpoint"))
    assert [row.jobs for row in rows] == [4]
    post(database, {"body": 1, "headers": {"A": "2", "B": "1"}})
    assert [row.jobs for row in database.fetch(text("SELECT count(*) AS jobs FROM jobs GROUP BY endpoint"))] == [5]


def test_equal_numbers_have_one_text_in_sql_and_python(connection: Any) -> None:
    spellings = ["1.50", "15e-1", "1.0", "1", "1e0", "0.10", "0.1000000000000000055", "0.000010", "1e-5", "0.0", "1E22"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT te_canonical_json(n) FROM unnest(CAST(%s AS jsonb[])) AS n", [spellings])
        written = [row[0] for row in cursor.fetchall()]
    assert written == [canonical_json(json.loads(each)) for each in spellings]
    assert len(set(written)) == 6


def test_number_beyond_a_double_is_refused(database: Database, connection: Any) -> None:
    for number in ("1e400", "-1e400", "1e-400"):
        policy = f'{{"fail_on": [{{"pointer": "/a", "equals": {number}}}]}}'
        with connection.cursor() as cursor, pytest.raises(psycopg2.Error, match="out of range") as refused:
            cursor.execute("SELECT te_send(%s, retry_policy => CAST(%s AS jsonb))", [URL, policy])
        assert refused.value.pgcode == "TE400"
        connection.rollback()


def test_deleted_inline_endpoint_gets_another_version(database: Database, connection: Any) -> None:
    send(connection, URL)
    connection.commit()
    database.fetch(text("UPDATE endpoints SET deleted_at = now() WHERE name LIKE 'inline-%' RETURNING name"))
    send(connection, URL)
    connection.commit()
    (row,) = database.fetch(text("SELECT version, deleted_at FROM endpoints WHERE name LIKE 'inline-%'"))
    assert tuple(row) == (2, None)


def test_open_transaction_of_a_new_definition_lets_a_web_process_start(database: Database, connection: Any) -> None:
    send(connection, URL)
    began = time.monotonic()
    routing.adopt(database, [])
    assert time.monotonic() - began < 1


def test_audited_instant_is_that_of_the_call(database: Database, connection: Any) -> None:
    """Readers of events may have passed the start of the transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT now(), pg_sleep(0.2)")
        send(connection, URL)
        cursor.execute("SELECT occurred_at > now() + INTERVAL '200 ms' FROM audit_log WHERE action = 'create'")
        assert cursor.fetchall() == [(True,)]


def test_key_and_time_are_those_of_te_enqueue(database: Database, connection: Any) -> None:
    first = send(connection, URL, {"a": 1}, delay="10m", idempotency_key="k", queue="bulk")
    assert send(connection, URL, {"a": 2}, idempotency_key="k") == Enqueued(first.job_id, first.execution_id, False)
    with pytest.raises(EnqueueError, match="not together with run_at"):
        send(connection, URL, delay="10m", run_at=first_instant(connection))
    connection.rollback()


def first_instant(connection: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute("SELECT now()")
        return cursor.fetchone()[0]


@pytest.mark.parametrize(("maximum", "code"), [(0, "FORBIDDEN"), (1, "CONFLICT")])
def test_number_of_inline_endpoints_is_bounded(database: Database, connection: Any, maximum: int, code: str) -> None:
    adopt_settings(database, max_inline_endpoints=maximum)
    for _ in range(2 * maximum):
        send(connection, URL)
    with pytest.raises(EnqueueError, match="TE_MAX_INLINE_ENDPOINTS") as refused:
        send(connection, "https://other.example")
    assert refused.value.code == code


def test_te_send_waits_for_a_process_of_its_release(database: Database, connection: Any) -> None:
    database.fetch(text("UPDATE enqueue_settings SET max_inline_endpoints = NULL RETURNING id"))
    with pytest.raises(EnqueueError, match="not known yet") as refused:
        send(connection, URL)
    assert refused.value.code == "SERVICE_UNAVAILABLE"


def test_te_send_has_a_grant_of_its_own(database: Database, connection: Any, database_url: str) -> None:
    role = f"sender_{database_url.rpartition('/')[2]}"[:60]
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE ROLE {role}; GRANT EXECUTE ON FUNCTION te_enqueue TO {role}; SET ROLE {role}; SAVEPOINT s"
        )
        with pytest.raises(EnqueueError, match="te_send"):
            send(connection, URL)
        cursor.execute(f"ROLLBACK TO s; RESET ROLE; REVOKE ALL ON FUNCTION te_enqueue FROM {role}")
        cursor.execute(f"GRANT EXECUTE ON FUNCTION te_send TO {role}; SET ROLE {role}")
        assert send(connection, URL).is_new
    connection.rollback()
