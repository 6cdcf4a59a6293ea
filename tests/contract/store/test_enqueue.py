"""te_enqueue: creates the same job as the API, in the transaction of the client, if and only if the client commits."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg2
import pytest
from psycopg2 import errors
from sqlalchemy import text
from task_executor_client.transaction import Enqueued, EnqueueError, enqueue

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.tracing.context import TraceContext
from app.kernel.wakeup import CHANNEL, Wakeup, decode, digest_of
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_model import NewJob
from schema.states import Trigger
from tests.enqueueing import adopt_settings
from tests.racing import at_once

pytestmark = pytest.mark.postgresql_only

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
LATER = datetime.now(UTC) + timedelta(hours=1)


@pytest.fixture
def database(database: Database) -> Database:
    adopt_settings(database)
    return database


@contextmanager
def client(url: str, **options: Any) -> Iterator[Any]:
    """Open a connection of a client application."""
    with closing(psycopg2.connect(url, **options)) as connection:
        yield connection


def jobs(database: Database) -> list[Any]:
    return list(database.fetch(text("SELECT * FROM jobs ORDER BY created_at, job_id")))


def executions(database: Database) -> list[Any]:
    return list(database.fetch(text("SELECT * FROM executions ORDER BY created_at, execution_id")))


def change(database: Database, assignment: str) -> None:
    database.fetch(text(f"UPDATE endpoints SET {assignment} WHERE name = 'target' RETURNING name"))


NOW = {"endpoint": "target", "idempotency_key": "k", "input": {"user": {"id": 7}, "x": [1.5, None, "ä"]}}
OWN = {"name": "n", "labels": {"team": "a", "example.com/env": ""}, "queue": "bulk", "priority": 200}


LIMIT = 'limits = \'{"per_key": {"key": "{{%s}}", "max_in_flight": 1}}\''
CASES: list[tuple[dict[str, Any], str]] = [
    (NOW, "queue = NULL"),
    (NOW, "queue = 'slow', priority = 3, retry_policy = '{\"max_attempts\": 7, \"max_age_ms\": 60000}'"),
    (NOW, "routed_queue = 'routed', result_retention_ms = 60000"),
    *((NOW, LIMIT % f" input.{path} ") for path in ("user.id", "x.2", "x.1", "nothing")),
    (NOW, 'callbacks = \'{"on_success": "a", "on_attempt_failed": "a"}\''),
    (NOW, 'callbacks = \'{"on_failure": "a"}\''),
    (NOW | OWN, "queue = 'slow', routed_queue = 'routed', priority = 3"),
    (NOW | OWN | {"run_at": LATER, "traceparent": TRACE}, "queue = NULL"),
    (NOW | {"delay": 600_000}, "queue = NULL"),
]


# Columns that te_enqueue leaves empty: later states, repeating jobs, and callbacks.
EMPTY_COLUMNS = {
    *("abort_requested_at", "cancel_requested_at", "completed_at", "config_revision", "duration_ms", "output"),
    *("paused_at", "recorded_at", "result_pruned_at", "retired_at", "started_at", "worker_id", "end_reason"),
    *("cron_ends_at", "cron_expression", "cron_last_tick_at", "cron_next_run_at", "cron_starts_at", "cron_timezone"),
    *("ended_at", "first_version_id", "interval_ms", "max_catch_up", "previous_version_id", "replaced_by_id"),
    *("callback_of", "callbacks"),
}


def test_te_enqueue_writes_the_same_rows_as_the_api(database: Database, database_url: str) -> None:
    unique_columns = {"job_id", "execution_id", "created_at", "idempotency_key", "run_at", "scheduled_at", "expires_at"}
    columns, filled = set(), set()
    for given, flow in CASES:
        database.fetch(text("DELETE FROM executions RETURNING job_id"))
        database.fetch(text("DELETE FROM jobs RETURNING job_id"))
        change(database, flow.replace(":", "\\:"))
        values = given | {"idempotency_key": "of-the-api"}
        trace = values.pop("traceparent", None)
        trigger = Trigger.DELAYED if {"run_at", "delay"} & values.keys() else Trigger.IMMEDIATE
        values["delay_ms"] = values.pop("delay", None)
        new = NewJob(trigger=trigger, trace=None if trace is None else TraceContext(trace), **({"labels": {}} | values))
        Creator(database, shards=1, look_ahead_ms=5000).create(new)
        with client(database_url) as connection:
            enqueue(connection, **given)
            connection.commit()
        for found in (jobs(database), executions(database)):
            first, second = (
                {key: value for key, value in row._asdict().items() if key not in unique_columns} for row in found
            )
            assert first == second
            columns |= first.keys()
            filled |= {name for name, value in first.items() if value is not None}
        assert [row.idempotency_key for row in executions(database)] == ["of-the-api", "k"]
        ages = {row.expires_at and row.expires_at - row.run_at for row in executions(database)}
        assert ages == {None if flow == "queue = NULL" and given == NOW else timedelta(minutes=1)}
        assert {len(row.job_id.rpartition("_")[2]) for row in executions(database)} == {32}
        if "run_at" in given:
            assert {row.run_at for row in [*jobs(database), *executions(database)]} == {LATER}
    assert columns - filled == EMPTY_COLUMNS, (
        "add a case that fills the new column, or list the column in EMPTY_COLUMNS"
    )


@pytest.mark.parametrize("delay", [timedelta(minutes=10), "10m", "PT10M", 600_000])
def test_delay_counts_from_the_call(database: Database, database_url: str, delay: Any) -> None:
    with client(database_url) as connection:
        enqueue(connection, "target", delay=delay)
        connection.commit()
    (job,), (execution,) = jobs(database), executions(database)
    assert (job.trigger_type, execution.status) == ("DELAYED", "PENDING")
    assert job.run_at == execution.run_at == job.created_at + timedelta(minutes=10)


def test_job_exists_if_and_only_if_the_client_commits(database: Database, database_url: str) -> None:
    with client(database_url) as connection, connection.cursor() as cursor:
        enqueue(connection, "target", idempotency_key="rolled-back")
        connection.rollback()
        enqueue(connection, "target", idempotency_key="committed")
        cursor.execute("SAVEPOINT s")
        enqueue(connection, "target", idempotency_key="to-savepoint")
        cursor.execute("ROLLBACK TO s")
        assert jobs(database) == []
        connection.commit()
        assert [job.idempotency_key for job in jobs(database)] == ["committed"]
        # The connection ends before the commit.
        enqueue(connection, "target", idempotency_key="died")
        database.fetch(text("SELECT pg_terminate_backend(:pid)"), {"pid": connection.get_backend_pid()})
        with pytest.raises(psycopg2.OperationalError):
            connection.commit()
    assert [job.idempotency_key for job in jobs(database)] == ["committed"]
    assert [row.status for row in executions(database)] == ["QUEUED"]


def test_workers_are_woken_at_the_commit(database: Database, database_url: str) -> None:
    change(database, (LIMIT % "input.k").replace(":", "\\:"))
    with client(database_url) as listener, client(database_url) as connection:
        listener.autocommit = True
        listener.cursor().execute(f"LISTEN {CHANNEL}")
        enqueue(connection, "target", {"k": "a b,\tä"})
        enqueue(connection, "target", {"k": "a"}, run_at=LATER)
        listener.poll()
        assert listener.notifies == []
        connection.commit()
        listener.cursor().execute("SELECT 1")
        listener.poll()
        (wakeup,) = listener.notifies
    (row,) = (row for row in executions(database) if row.status == "QUEUED")
    run_at = EPOCH + (row.run_at - EPOCH) // timedelta(milliseconds=1) * timedelta(milliseconds=1)
    assert decode(wakeup.payload) == ({Wakeup("http", digest_of(0, "target", "=a b,\tä", 128), run_at)}, 0)


def test_jobs_spread_over_the_shards(database: Database, database_url: str) -> None:
    adopt_settings(database, shards=4)
    with client(database_url) as connection:
        for _ in range(60):
            enqueue(connection, "target")
        connection.commit()
    assert {row.shard for row in executions(database)} == {0, 1, 2, 3}
    assert len({row.idempotency_key for row in jobs(database)}) == 60


@pytest.mark.parametrize("level", ["READ COMMITTED", "SERIALIZABLE"])
def test_concurrent_calls_with_one_key_create_one_job(database: Database, database_url: str, level: str) -> None:
    def attempt() -> Enqueued:
        while True:
            try:
                with client(database_url) as connection:
                    connection.set_session(isolation_level=level)
                    found = enqueue(connection, "target", idempotency_key="k")
                    connection.commit()
                    return found
            except errors.SerializationFailure:
                continue

    found = at_once(*[attempt] * 6)
    assert sum(enqueued.is_new for enqueued in found) == 1
    assert {enqueued.job_id for enqueued in found} == {jobs(database)[0].job_id}
    assert len(executions(database)) == 1


SCHEMA = (
    '{"type": "object", "required": ["id"], "additionalProperties": false, "properties": '
    '{"id": {"type": "integer"}, "tags": {"type": ["array", "null"]}, "more": {"minimum": 3}}}'
)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return value


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"endpoint": "none"}, "ENDPOINT_NOT_FOUND", "'none'"),
    *(({"endpoint": wrong}, "INVALID_REQUEST", "endpoint: must have 1 to 128") for wrong in ("", "e" * 1_000_000)),
    ({"input": {"id": 7, "f" * 1_000_000: 1}}, "INPUT_VALIDATION_FAILED", "fff: is no property"),
    ({"input": {}}, "INPUT_VALIDATION_FAILED", "/input/id: is required"),
    ({"input": {"id": "7"}}, "INPUT_VALIDATION_FAILED", "/input/id: must be integer"),
    ({"input": {"id": 7.5}}, "INPUT_VALIDATION_FAILED", "/input/id: must be integer"),
    ({"input": {"id": 7, "tags": "a"}}, "INPUT_VALIDATION_FAILED", "/input/tags"),
    ({"input": {"id": 7, "other": 1}}, "INPUT_VALIDATION_FAILED", "/input/other: is no property"),
    *(({"input": wrong}, "INVALID_REQUEST", "input: must be a JSON object") for wrong in ([1], [])),
    ({"input": {"id": "x" * 1_100_000}}, "INVALID_REQUEST", "input: must have at most"),
    ({"input": {"id": 7, "more": nested(100)}}, "INVALID_REQUEST", "input: must be nested no deeper"),
    *(({"input": {"id": sign * 10**309}}, "INVALID_REQUEST", "input: a number is too large") for sign in (1, -1)),
    ({"input": {"id": "\0"}}, "INVALID_REQUEST", "NUL"),
    ({"input": {"id": "\ud800"}}, "INVALID_REQUEST", "surrogate"),
    ({"idempotency_key": ""}, "INVALID_REQUEST", "idempotency_key"),
    ({"idempotency_key": "te:redrive:att_1"}, "INVALID_REQUEST", "idempotency_key: must not begin with te:"),
    ({"name": "n" * 201}, "INVALID_REQUEST", "name"),
    ({"queue": "No"}, "INVALID_REQUEST", "queue"),
    ({"priority": 256}, "INVALID_REQUEST", "priority"),
    ({"labels": {"a b": "c"}}, "INVALID_REQUEST", "a key is spelt"),
    ({"labels": {f"{'a.' * 126}aa/b": "c"}}, "INVALID_REQUEST", "a key is spelt"),
    ({"labels": {"a": "c\n"}}, "INVALID_REQUEST", "a value is spelt"),
    ({"labels": {f"k{n}": "" for n in range(33)}}, "INVALID_REQUEST", "at most 32"),
    ({"run_at": datetime(2300, 1, 1, tzinfo=UTC)}, "INVALID_REQUEST", "run_at"),
    *(({"delay": wrong}, "INVALID_REQUEST", "delay: must be from 0 to 3650 days") for wrong in (-1, "3651d")),
    ({"delay": "10m", "run_at": LATER}, "INVALID_REQUEST", "delay: not together with run_at"),
    ({"delay": "soon"}, "INVALID_REQUEST", "delay"),
    ({"traceparent": "00-0"}, "INVALID_REQUEST", "traceparent"),
]


def test_invalid_arguments_are_refused(database: Database, database_url: str) -> None:
    spec = text("INSERT INTO payload_specs (name, schema_json) VALUES ('s', CAST(:schema AS JSONB)) RETURNING name")
    database.fetch(spec, {"schema": SCHEMA})
    change(database, "payload_spec_ref = 's'")
    right = {"endpoint": "target", "input": {"id": 7.0, "tags": None, "more": 1}}
    with client(database_url) as connection:
        for given, code, message in REFUSED:
            with pytest.raises(EnqueueError, match=message) as refused:
                enqueue(connection, **(right | given))
            assert refused.value.code == code
            assert len(str(refused.value)) < 300
            connection.rollback()
        assert enqueue(connection, "target", {"id": 7.0, "tags": [], "more": nested(99)}).is_new
        assert enqueue(connection, **right).is_new
    assert jobs(database) == []


def test_limit_key_of_an_unsupported_type_is_refused(database: Database, database_url: str) -> None:
    change(database, (LIMIT % "input.k").replace(":", "\\:"))
    with client(database_url) as connection:
        for value in ("#a", "x" * 101, {"a": 1}, [1], 1.5):
            with pytest.raises(EnqueueError, match="must be a whole number"):
                enqueue(connection, "target", {"k": value})
            connection.rollback()
        assert enqueue(connection, "target", {"k": "x" * 100}).is_new


def test_te_enqueue_without_its_settings_is_refused(database: Database, database_url: str) -> None:
    database.fetch(text("DELETE FROM enqueue_settings RETURNING id"))
    with client(database_url) as connection, pytest.raises(EnqueueError, match="number of shards") as refused:
        enqueue(connection, "target")
    assert refused.value.code == "SERVICE_UNAVAILABLE"


def test_te_enqueue_needs_only_the_execute_privilege(database: Database, database_url: str) -> None:
    role = f"caller_{database_url.rpartition('/')[2]}"[:60]
    database.fetch(text(f"DO $$ BEGIN CREATE ROLE {role}; END $$"))
    try:
        with client(database_url) as connection, connection.cursor() as cursor:
            cursor.execute(f"SET ROLE {role}")
            with pytest.raises(EnqueueError, match="GRANT it EXECUTE"):
                enqueue(connection, "target")
            connection.rollback()
            cursor.execute(f"GRANT EXECUTE ON FUNCTION te_enqueue TO {role}")
            cursor.execute(f"SET ROLE {role}")
            # A table in the search path of the client does not hide a table of the function.
            cursor.execute("CREATE TEMP TABLE jobs (job_id TEXT); SET search_path = pg_temp, public")
            assert enqueue(connection, "target", schema="public").is_new
            with pytest.raises(errors.InsufficientPrivilege):
                cursor.execute("SELECT * FROM public.jobs")
            connection.rollback()
    finally:
        database.fetch(text(f"DO $$ BEGIN DROP OWNED BY {role}; DROP ROLE {role}; END $$"))


def test_database_without_te_enqueue_is_a_clear_error(empty_database_url: str) -> None:
    with client(empty_database_url) as connection, pytest.raises(EnqueueError, match="not CockroachDB"):
        enqueue(connection, "target")


def test_settings_follow_the_latest_started_process(database: Database) -> None:
    adopt_settings(database, shards=8, look_ahead_ms=1000)
    adopt_settings(database, shards=8, look_ahead_ms=1000)
    (row,) = database.fetch(text("SELECT shards, look_ahead_ms FROM enqueue_settings"))
    assert tuple(row) == (8, 1000)
