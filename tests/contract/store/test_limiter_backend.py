"""ExecutionsLimiterBackend: rate limiters and barriers of Dramatiq over the database, also under concurrency."""

import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from dramatiq.rate_limits import Barrier, ConcurrentRateLimiter
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from task_executor_dramatiq import ExecutionsLimiterBackend, LimiterError, TaskExecutorBroker

from app.features.actors.chores import PRUNE
from app.kernel.db import Database
from app.kernel.db.retries import sqlstate
from tests.contract.scheduler.conftest import chores
from tests.enqueue_caller import PASSWORD, Caller, calling
from tests.pg_proxy import FAULTS, Fault, PgProxy
from tests.racing import at_once

pytestmark = pytest.mark.postgresql_only
TTL = 60_000
EXPIRE = text(
    "UPDATE limiter_values SET expires_at = now() - :age * INTERVAL '1 second' WHERE key = :key RETURNING key"
)
VALUES = text("SELECT key, party, value FROM limiter_values ORDER BY key, party")


def backend_of(url: str) -> ExecutionsLimiterBackend:
    return ExecutionsLimiterBackend(TaskExecutorBroker(url=url, worker="unix:/nowhere"))


@pytest.fixture
def backend(database_url: str) -> Iterator[ExecutionsLimiterBackend]:
    backend = backend_of(database_url)
    yield backend
    backend.close()


@pytest.fixture(params=["read committed", "serializable"])
def backends(database_url: str, request: pytest.FixtureRequest) -> Iterator[list[ExecutionsLimiterBackend]]:
    """Backends of sixteen processes, at each isolation level."""
    options = f"-c default_transaction_isolation={request.param}".replace("read ", "read\\ ")
    found = [backend_of(f"{database_url}?options={quote(options)}") for _ in range(16)]
    for each in found:
        each.wait("absent", 0)  # connects
    yield found
    for each in found:
        each.close()


def expire(database: Database, key: str, *, age: int = 0) -> None:
    assert database.fetch(EXPIRE, {"key": key, "age": age})


def test_value_is_added_once_until_it_expires(backend: ExecutionsLimiterBackend, database: Database) -> None:
    assert [backend.add("k", 3, TTL), backend.add("k", 4, TTL)] == [True, False]
    expire(database, "k")
    assert [backend.add("k", 4, TTL), backend.add("k", 5, TTL)] == [True, False]
    assert [(row.key, row.value) for row in database.fetch(VALUES)] == [("k", 4)]


def test_changes_keep_the_bounds_and_renew_the_expiry(backend: ExecutionsLimiterBackend, database: Database) -> None:
    assert [backend.incr("k", 2, maximum=5, ttl=TTL) for _ in range(3)] == [True, True, False]
    assert [backend.decr("k", 1, minimum=2, ttl=10 * TTL) for _ in range(3)] == [True, True, False]
    left = text("SELECT expires_at > now() + INTERVAL '1 minute' AS is_renewed FROM limiter_values WHERE party = ''")
    assert [row.is_renewed for row in database.fetch(left)] == [True]
    expire(database, "k")
    assert backend.decr("k", 2, minimum=-2, ttl=TTL)
    assert not backend.decr("k", 1, minimum=-2, ttl=TTL)


def test_refused_change_makes_no_value(backend: ExecutionsLimiterBackend) -> None:
    assert not backend.incr("k", 2, maximum=1, ttl=TTL)
    assert backend.add("k", 1, TTL)


def test_sum_of_keys_bounds_a_change(backend: ExecutionsLimiterBackend, database: Database) -> None:
    backend.add("a", 2, TTL)
    backend.add("b", 1, TTL)
    change = partial(backend.incr_and_sum, "b", lambda: ["b", "a", "new"], 1, 4, TTL)
    assert [change(), change()] == [True, False]
    expire(database, "a")
    assert [change(), change(), change()] == [True, True, False]


def test_sum_contains_the_value_of_the_changed_key_only_if_keys_name_it(backend: ExecutionsLimiterBackend) -> None:
    backend.add("a", 2, TTL)
    backend.add("b", 3, TTL)
    assert backend.incr_and_sum("b", lambda: ["a"], 1, 4, TTL)
    assert not backend.incr_and_sum("b", lambda: ["a", "b"], 1, 6, TTL)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("", 1, TTL), "key: must have 1 to 500 characters"),
        (("k" * 501, 1, TTL), "key: must have 1 to 500 characters"),
        (("k", 10**15 + 1, TTL), "value: must be a whole number from -1000000000000000 to 1000000000000000"),
        (("k", 10**30, TTL), "value: must be a whole number"),
        (("k", 0.5, TTL), "value: must be a whole number"),
        (("k", 1, 0), "ttl: must be from 1 ms to 3650 days"),
    ],
)
def test_bounds_are_named(backend: ExecutionsLimiterBackend, arguments: tuple[Any, ...], fault: str) -> None:
    with pytest.raises(LimiterError, match=fault):
        backend.add(*arguments)
    assert backend.add("k" * 500, 10**15, TTL)


@pytest.mark.parametrize("key", ["", "k" * 501, "secret\0", "secret\ud800", None, b"secret", 7])
def test_unusable_key_is_named_and_not_quoted(backend: ExecutionsLimiterBackend, key: Any) -> None:
    calls: dict[str, Callable[[], Any]] = {
        "key: ": lambda: backend.add(key, 1, TTL),
        "key:": lambda: backend.wait(key, 0),
        "each of keys: ": lambda: backend.incr_and_sum("k", lambda: ["a", key], 1, 9, TTL),
    }
    for name, call in calls.items():
        with pytest.raises(LimiterError, match=f"^{name}") as raised:
            call()
        assert "secret" not in str(raised.value)


def test_too_many_keys_and_a_value_that_overflows_are_named(backend: ExecutionsLimiterBackend) -> None:
    with pytest.raises(LimiterError, match="sums at most 3600; take a shorter window"):
        backend.incr_and_sum("k", lambda: [str(number) for number in range(3601)], 1, 9, TTL)
    backend.add("k", 10**15, TTL)
    with pytest.raises(LimiterError, match="value: must be a whole number"):
        backend.incr("k", 1, maximum=10**16, ttl=TTL)


@pytest.mark.parametrize(
    ("bounds", "fault"),
    [
        ("NULL, 9, 60000, ARRAY['a', NULL]", "keys: each must have 1 to 500 characters"),
        ("NULL, 9, 60000, ARRAY['a', '']", "keys: each must have 1 to 500 characters"),
        ("NULL, 9, 60000, ARRAY['a', repeat('k', 501)]", "keys: each must have 1 to 500 characters"),
        ("NULL, NULL, 60000, ARRAY['k']", "maximum: must be a number, since keys are given"),
        ("NULL, 'NaN', 60000, ARRAY['k']", "maximum: must be a number, since keys are given"),
        ("NULL, 'NaN', 60000", "maximum: must be a number, or NULL for none"),
        ("'NaN', NULL, 60000", "minimum: must be a number, or NULL for none"),
    ],
)
def test_faults_of_a_change_are_named(database: Database, bounds: str, fault: str) -> None:
    with database.engine.connect() as connection, pytest.raises(DBAPIError, match=f"te_limiter: {fault}") as raised:
        connection.execute(text(f"SELECT te_limiter_change('k', 1, {bounds})"))
    assert sqlstate(raised.value) == "TE400"


def test_limit_holds_for_processes_at_once(backends: list[ExecutionsLimiterBackend], database: Database) -> None:
    def acquire(backend: ExecutionsLimiterBackend) -> int:
        return sum(backend.incr("k", 1, maximum=20, ttl=TTL) for _ in range(4))

    assert sum(at_once(*(partial(acquire, each) for each in backends))) == 20
    assert [row.value for row in database.fetch(VALUES)] == [20]


def test_mutex_is_held_by_one_process(backends: list[ExecutionsLimiterBackend]) -> None:
    """Each holder waits for the next try of another process, so that two would hold it at once if both might."""
    held, most, tries, turns, changed = 0, 0, 0, 0, threading.Condition()

    def is_tried(seen: int) -> bool:
        return tries > seen or turns >= 4  # the others have left

    def work(backend: ExecutionsLimiterBackend) -> None:
        nonlocal held, most, tries, turns
        while turns < 4:
            with ConcurrentRateLimiter(backend, "mutex").acquire(raise_on_failure=False) as is_acquired, changed:
                tries, held = tries + 1, held + is_acquired
                changed.notify_all()
                if is_acquired:
                    most = max(most, held)
                    assert changed.wait_for(partial(is_tried, tries), timeout=60)
                    held, turns = held - 1, turns + 1
                    changed.notify_all()

    at_once(*(partial(work, each) for each in backends))
    assert most == 1


def test_sum_bounds_changes_of_different_keys_at_once(backends: list[ExecutionsLimiterBackend]) -> None:
    """Each of the keys is new, and each change sums all: without locks on absent rows, several succeed too many."""
    keys = [f"window@{number}" for number in range(4)]

    def acquire(backend: ExecutionsLimiterBackend, key: str) -> int:
        return sum(backend.incr_and_sum(key, lambda: keys, 1, 5, TTL) for _ in range(3))

    assert sum(at_once(*(partial(acquire, each, keys[n % 4]) for n, each in enumerate(backends)))) == 5


def test_one_party_clears_a_barrier(backends: list[ExecutionsLimiterBackend]) -> None:
    for number in range(5):
        barriers = [Barrier(each, f"barrier-{number}", ttl=TTL) for each in backends]
        assert [each.create(16) for each in barriers] == [True] + [False] * 15
        waits: list[Callable[[], bool]] = [partial(each.wait, block=False) for each in barriers]
        assert sum(at_once(*waits)) == 1


def test_new_barrier_knows_no_answers_of_an_expired_one(backend: ExecutionsLimiterBackend, database: Database) -> None:
    """A party that asked last got its answer when the barrier had no time left; each message is a party of one name."""
    change = text("SELECT te_limiter_change('k', -1, 1, NULL, 60000, NULL, 'p') AS is_last")
    assert backend.add("k", 1, TTL)
    assert [row.is_last for row in database.fetch(change)] == [False]
    database.fetch(text("UPDATE limiter_values SET expires_at = now() WHERE party = '' RETURNING key"))
    assert backend.add("k", 2, TTL)
    assert [row.is_last for row in database.fetch(change)] == [True]
    assert not backend.add("k", 3, TTL)
    assert [(row.party, row.value) for row in database.fetch(VALUES)] == [("", 1), ("p", 1)]


def test_blocked_parties_leave_when_the_last_one_comes(backend: ExecutionsLimiterBackend) -> None:
    barrier = Barrier(backend, "blocking", ttl=TTL)
    assert barrier.create(3)
    assert at_once(*[partial(barrier.wait, timeout=30_000)] * 3) == [True, True, True]
    assert barrier.wait()


def test_wait_ends_at_its_timeout(backend: ExecutionsLimiterBackend) -> None:
    assert not backend.wait("k@events", 1)
    backend.wait_notify("k@events", TTL)
    assert backend.wait("k@events", 0)


@pytest.mark.own_faults
@pytest.mark.parametrize("minimum", [1, 0], ids=["barrier", "release"])
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_decrease_counts_once_if_its_answer_is_lost(
    database_url: str, database: Database, monkeypatch: pytest.MonkeyPatch, fault: Fault, minimum: int
) -> None:
    """A release that counts twice would give back another holder's permit."""
    monkeypatch.setitem(sys.modules, "psycopg", None)  # the proxy reads statements of psycopg2 only
    with PgProxy(urlsplit(database_url).port or 5432) as proxy:
        backend = backend_of(proxy.url(database_url))
        assert backend.add("k", 3, TTL)
        proxy.arm("te_limiter_change", fault)
        assert backend.decr("k", 1, minimum, TTL)
        assert proxy.fired == 1
        backend.close()
    assert [row.value for row in database.fetch(VALUES) if not row.party] == [2]


def test_broken_connection_is_replaced(backend: ExecutionsLimiterBackend, database: Database) -> None:
    backend.add("k", 1, TTL)
    ended = text(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND query LIKE '%te_limiter%' AND pid <> pg_backend_pid()"
    )
    assert database.fetch(ended)
    assert backend.incr("k", 1, maximum=2, ttl=TTL)


@pytest.fixture
def caller(database: Database, database_url: str) -> Iterator[Caller]:
    with calling(database, database_url) as caller:
        yield caller


def test_role_needs_execute_only(caller: Caller, database_url: str) -> None:
    netloc = f"{caller.name}:{quote(PASSWORD)}@{urlsplit(database_url).netloc.rpartition('@')[2]}"
    backend = backend_of(urlsplit(database_url)._replace(netloc=netloc).geturl())
    with pytest.raises(LimiterError, match="GRANT EXECUTE ON FUNCTION te_limiter_add, te_limiter_change"):
        backend.add("k", 1, TTL)
    caller.run(f"GRANT EXECUTE ON FUNCTION te_limiter_add, te_limiter_change, te_limiter_value TO {caller.name}")
    assert backend.add("k", 1, TTL)
    assert backend.incr("k", 1, maximum=2, ttl=TTL)
    assert not backend.wait("absent", 0)
    backend.close()


def test_database_without_the_functions_names_the_upgrade(
    backend: ExecutionsLimiterBackend, database: Database
) -> None:
    database.fetch(text("DO $$ BEGIN ALTER FUNCTION te_limiter_add RENAME TO te_limiter_gone; END $$"))
    with pytest.raises(LimiterError, match=r"db upgrade.*RedisBackend"):
        backend.add("k", 1, TTL)
    database.fetch(text("DO $$ BEGIN ALTER FUNCTION te_limiter_gone RENAME TO te_limiter_add; END $$"))


def test_broker_of_the_api_needs_the_database(database_url: str) -> None:
    broker = TaskExecutorBroker(url="http://127.0.0.1:9", worker="unix:/nowhere")
    with pytest.raises(TypeError, match=r"give the database, ExecutionsLimiterBackend\(broker, url=…\)"):
        ExecutionsLimiterBackend(broker)
    backend = ExecutionsLimiterBackend(broker, url=database_url)
    assert backend.add("k", 1, TTL)
    backend.close()


def test_rows_are_pruned_an_hour_after_they_expire(backend: ExecutionsLimiterBackend, database: Database) -> None:
    for number in range(5):
        backend.add(f"old-{number}", 1, TTL)
        expire(database, f"old-{number}", age=3_660)
    backend.add("young", 1, TTL)
    expire(database, "young", age=3_540)
    backend.add("valid", 2, TTL)
    backend.decr("valid", 1, minimum=1, ttl=TTL)
    assert chores(database, batch=2).prune_limiter_values() == {"limiter_values": 5}
    assert [row.key for row in database.fetch(VALUES)] == ["valid", "valid", "young"]


def test_next_batch_of_pruning_starts_behind_the_last_row(database: Database) -> None:
    old = "INSERT INTO limiter_values SELECT key, party, 1, '-infinity' FROM unnest(ARRAY['a', 'b', 'c']) AS k (key)"
    database.fetch(text(f"{old}, unnest(ARRAY['', 'p', 'q']) AS p (party)"))
    (row,) = database.fetch(PRUNE, {"since": ["b", ""], "limit": 3})
    assert (row.deleted, row.reached) == (3, ["c", ""])
    assert [row.key + row.party for row in database.fetch(VALUES)] == ["a", "ap", "aq", "b", "cp", "cq"]
    assert chores(database, batch=4).prune_limiter_values() == {"limiter_values": 6}
