"""Group creation of jobs by one statement: each job has the same outcome as when created alone."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DBAPIError

from app.dev.process.proxy import Mode
from app.kernel import db
from app.kernel.db import Database, deadline
from app.kernel.db.retries import sqlstate
from app.kernel.errors import EndpointNotFoundError, TimedOutError, UnavailableError
from app.queue.jobs.job_creation import MAX_GROUPED_INPUT, Created, Creator
from app.queue.jobs.job_model import NewJob
from schema.states import Trigger
from tests import rows
from tests.group_commit_waiters import waiting_in_group_commit, writing_in_creation
from tests.pg_proxy import FAULTS, Fault, PgProxy
from tests.waiting import HUNG_SECONDS, eventually

LOCK = text("SELECT 1 FROM endpoints WHERE name = 'target' FOR UPDATE")
RAISE_VERSION = text("UPDATE endpoints SET version = 2 WHERE name = 'target'")
SLOW = """
CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END $$;
CREATE TRIGGER slow BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION sleep();
"""
Create = Callable[..., Future[Created]]


def job(key: str, **changes: Any) -> NewJob:
    values = {"endpoint": "target", "trigger": Trigger.IMMEDIATE, "input": {"key": key}, "idempotency_key": key}
    return NewJob(**(values | changes))


@pytest.fixture
def proxy(database_url: str) -> Iterator[PgProxy]:
    with PgProxy(urlsplit(database_url).port or 5432) as proxy:
        yield proxy


@pytest.fixture
def proxied(database_url: str, proxy: PgProxy) -> Iterator[Database]:
    """The test database, reached through the proxy."""
    database = db.connect(proxy.url(database_url), pool_size=10, application_name="te-proxied")
    yield database
    database.close()


@pytest.fixture
def creator(database: Database, proxied: Database) -> Creator:
    creator = Creator(proxied, shards=4, look_ahead_ms=5000)
    creator.create(job("warm-up"))
    return creator


@pytest.fixture
def create(creator: Creator) -> Iterator[Create]:
    """Create a job in a separate thread with a deadline in seconds."""
    with ThreadPoolExecutor(10) as pool:

        def create(new: NewJob, seconds: float = HUNG_SECONDS) -> Future[Created]:
            def body() -> Created:
                deadline.begin(seconds)
                try:
                    return creator.create(new, together=True)
                finally:
                    deadline.end()

            return pool.submit(body)

        yield create


@pytest.fixture
def inserts(proxied: Database, creator: Creator) -> list[str]:
    """Statements that insert jobs, recorded after the warm-up."""
    found: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if "INSERT INTO jobs" in statement:
            found.append(statement)

    event.listen(proxied.engine, "before_cursor_execute", note)
    return found


class Lock:
    """Lock of the endpoint's row: the first creation waits in the database, and later creations wait for the first."""

    def __init__(self, database: Database) -> None:
        self._stack = ExitStack()
        self._database = database

    def take(self) -> Connection:
        """Lock the endpoint; `release` commits the statements of the returned connection."""
        connection = self._stack.enter_context(self._database.engine.connect())
        self._stack.enter_context(connection.begin())
        connection.execute(LOCK)
        return connection

    def release(self) -> None:
        """Commit the statements of the connection, which releases the lock."""
        self._stack.close()


@pytest.fixture
def lock(database: Database) -> Iterator[Lock]:
    lock = Lock(database)
    yield lock
    lock.release()


def gathered(create: Create, lock: Lock, jobs: list[NewJob]) -> list[Future[Created]]:
    """Start to create jobs: the first waits for the lock, and all others wait for the first."""
    lock.take()
    return waiting(create, jobs)


def waiting(create: Create, jobs: list[NewJob]) -> list[Future[Created]]:
    first, *others = jobs
    futures = [create(first)]
    eventually(lambda: writing_in_creation() == 1)  # else another thread may come first
    futures += [create(new) for new in others]
    eventually(lambda: waiting_in_group_commit() == len(others))
    return futures


def keys(database: Database) -> set[str]:
    found = database.fetch(
        text(
            "SELECT j.idempotency_key FROM jobs j JOIN executions e ON e.job_id = j.job_id AND e.endpoint = j.endpoint"
        )
    )
    return {row.idempotency_key for row in found}


def test_jobs_requested_during_a_statement_are_created_by_one_statement(
    database: Database, create: Create, lock: Lock, inserts: list[str]
) -> None:
    jobs = [job(f"k{number}", labels={"n": str(number)}, name=f"N{number}") for number in range(6)]
    futures = gathered(create, lock, jobs)
    lock.release()
    for new, created in zip(jobs, [future.result(HUNG_SECONDS) for future in futures], strict=True):
        assert created.is_new
        stored = Creator(database, shards=4, look_ahead_ms=5000).create(new).job
        assert created.job == stored
        assert (stored.input, stored.labels, stored.name) == (new.input, new.labels, new.name)
    assert [("unnest" in statement) for statement in inserts[:2]] == [False, True]
    assert keys(database) == {"warm-up", *[f"k{number}" for number in range(6)]}


def test_used_key_is_a_replay_and_equal_keys_create_one_job(database: Database, create: Create, lock: Lock) -> None:
    futures = gathered(create, lock, [job("a"), job("warm-up"), job("twin"), job("twin"), job("b")])
    lock.release()
    _, old, *twins, new = [future.result(HUNG_SECONDS) for future in futures]
    assert not old.is_new
    assert old.job.idempotency_key == "warm-up"
    assert sorted(twin.is_new for twin in twins) == [False, True]
    assert twins[0].job == twins[1].job
    assert new.is_new
    assert keys(database) == {"warm-up", "a", "twin", "b"}


def test_refused_value_fails_only_its_own_job(database: Database, create: Create, lock: Lock) -> None:
    futures = gathered(create, lock, [job("a"), job("bad", input={"text": "\0"}), job("b"), job("c")])
    lock.release()
    refused = futures[1].exception(HUNG_SECONDS)
    assert isinstance(refused, DBAPIError)
    assert sqlstate(refused) == "22P05"
    assert all(future.result(HUNG_SECONDS).is_new for future in (futures[0], *futures[2:]))
    assert keys(database) == {"warm-up", "a", "b", "c"}


def test_jobs_of_a_failed_group_are_created_alone(
    database: Database, proxied: Database, create: Create, lock: Lock
) -> None:
    """A second group with the bad job could fail again, so each job gets a separate statement."""
    jobs = [job("a"), job("bad", input={"text": "\0"}), job("b")]
    futures = gathered(create, lock, [job("first"), *jobs])
    alone = threading.Barrier(len(jobs))

    def meet(_connection: Any, _cursor: Any, statement: str, params: Any, *_: Any) -> None:
        is_alone = "INSERT INTO jobs" in statement and "unnest" not in statement
        if is_alone and params["idempotency_key"] != "first":  # which may still be in a second try
            alone.wait(HUNG_SECONDS)

    event.listen(proxied.engine, "before_cursor_execute", meet)
    lock.release()
    assert [future.exception(HUNG_SECONDS) is None for future in futures] == [True, True, False, True]
    assert keys(database) == {"warm-up", "first", "a", "b"}


def test_jobs_use_the_latest_version_of_their_endpoint(database: Database, create: Create, lock: Lock) -> None:
    other = lock.take()
    futures = waiting(create, [job("a"), job("b"), job("c")])
    other.execute(RAISE_VERSION)
    other.execute(
        text(
            "INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec, retry_policy) "
            "SELECT endpoint, 2, endpoint_type, spec, retry_policy FROM endpoint_versions WHERE endpoint = 'target'"
        )
    )
    lock.release()
    assert {future.result(HUNG_SECONDS).job.endpoint_version for future in futures} == {2}
    assert keys(database) == {"warm-up", "a", "b", "c"}


def test_no_job_is_created_for_a_deleted_endpoint(create: Create, database: Database, lock: Lock) -> None:
    other = lock.take()
    futures = waiting(create, [job("a"), job("warm-up"), job("c")])
    other.execute(text("UPDATE endpoints SET deleted_at = now() WHERE name = 'target'"))
    lock.release()
    first, replay, last = futures
    assert isinstance(first.exception(HUNG_SECONDS), EndpointNotFoundError)
    assert not replay.result(HUNG_SECONDS).is_new
    assert isinstance(last.exception(HUNG_SECONDS), EndpointNotFoundError)
    assert keys(database) == {"warm-up"}


def test_jobs_of_another_endpoint_do_not_wait(database: Database, create: Create, lock: Lock) -> None:
    rows.add_endpoint(database, "other")
    futures = gathered(create, lock, [job("a"), job("b")])
    assert create(job("free", endpoint="other")).result(HUNG_SECONDS).is_new
    assert not any(future.done() for future in futures)
    lock.release()
    assert all(future.result(HUNG_SECONDS).is_new for future in futures)


@pytest.mark.own_faults
def test_groups_of_two_processes_with_the_same_keys_do_not_deadlock(
    database: Database, proxied: Database, creator: Creator, lock: Lock
) -> None:
    if database.is_cockroach:
        pytest.skip("needs a trigger that sleeps")
    with database.engine.begin() as connection:
        connection.exec_driver_sql(SLOW)
    failed: list[str | None] = []
    event.listen(proxied.engine, "handle_error", lambda context: failed.append(context.original_exception.pgcode))
    lock.take()
    other = Creator(proxied, shards=4, look_ahead_ms=5000)
    with ThreadPoolExecutor(8) as pool:
        futures = []
        for group_creator, keys_ in ((creator, ["a", "1", "2", "3"]), (other, ["b", "3", "2", "1"])):
            for key in keys_:
                count = writing_in_creation if key in {"a", "b"} else waiting_in_group_commit
                before = count()
                futures.append(pool.submit(group_creator.create, job(key), together=True))
                eventually(lambda count=count, before=before: count() == before + 1)  # type: ignore[misc]
        lock.release()
        assert sorted(future.result(HUNG_SECONDS).is_new for future in futures) == [False] * 3 + [True] * 5
    assert failed == []


def test_job_with_a_large_input_is_created_by_a_separate_statement(
    create: Create, lock: Lock, inserts: list[str]
) -> None:
    """A group of large inputs would exceed the size of a statement that the server accepts."""
    lock.take()
    futures = [create(job(f"k{number}", input={"text": "x" * MAX_GROUPED_INPUT})) for number in range(3)]
    eventually(lambda: len(inserts) == 3)
    assert not any("unnest" in statement for statement in inserts)
    lock.release()
    assert all(future.result(HUNG_SECONDS).is_new for future in futures)


def test_each_request_has_its_own_deadline(database: Database, create: Create, lock: Lock) -> None:
    futures = gathered(create, lock, [job("a"), job("b")])
    with pytest.raises(TimedOutError):
        create(job("late"), seconds=0.05).result(HUNG_SECONDS)
    lock.release()
    assert all(future.result(HUNG_SECONDS).is_new for future in futures)
    assert keys(database) == {"warm-up", "a", "b"}


def test_every_job_of_a_group_reports_an_unreachable_database(create: Create, lock: Lock, proxy: PgProxy) -> None:
    futures = gathered(create, lock, [job("a"), job("b"), job("c")])
    proxy.set(Mode.CUT)
    assert [type(future.exception(HUNG_SECONDS)) for future in futures] == [UnavailableError] * 3
    proxy.set(Mode.PASS)
    lock.release()
    assert create(job("later")).result(HUNG_SECONDS).is_new


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_jobs_are_created_once_when_the_commit_is_lost_or_refused(
    database: Database, create: Create, lock: Lock, proxy: PgProxy, fault: Fault
) -> None:
    futures = gathered(create, lock, [job("a"), job("b"), job("c")])
    proxy.arm("INSERT INTO jobs", fault)
    lock.release()
    assert all(future.result(HUNG_SECONDS).is_new for future in futures)
    assert proxy.fired == 1
    assert keys(database) == {"warm-up", "a", "b", "c"}
