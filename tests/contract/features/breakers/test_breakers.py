"""Breakers over several worker processes: counting, writing and reading results, and claims."""

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from app.features.breakers.rules import BreakerSettings
from app.features.breakers.store import close
from app.kernel.db import Database, connect
from schema.inline_bounds import INLINE_PREFIX
from tests.contract.conftest import worker_process
from tests.contract.features.breakers.breaking import (
    LIMIT,
    NAME,
    NewWorker,
    Worker,
    open_breaker,
    reasons,
    row,
    set_past,
    sync_all,
)
from tests.rows import database_now


def test_failures_of_several_processes_together_open_the_breaker_for_all(
    database: Database, three: list[Worker], new_worker: NewWorker
) -> None:
    idle, new = new_worker(), new_worker()
    open_breaker(database, three)
    for worker in (idle, new):
        worker.read_states()
    assert idle.capacity() == 0
    assert new.bind("other").is_open, "the breaker also blocks an endpoint that is bound later"
    found = row(database)
    assert (found.state, found.reason, found.failed, found.results) == ("open", "FAILURES", 12, 12)
    assert reasons(database) == ["FAILURES"]
    # Claimed executions that have not started must wait, too.
    assert not idle.target.lets(object())
    assert not idle.probe(object())


def test_new_process_reads_open_breakers_before_its_first_claim(
    database: Database, database_url: str, three: list[Worker]
) -> None:
    """Consumers and te-flow start concurrently: either may be the first to read the database."""
    open_breaker(database, three)
    process = worker_process(database, connect(database_url, pool_size=1, application_name="te-test-lease"))
    is_over = threading.Event()
    process.flow.on_poll(lambda _state: bool(is_over.wait()))  # the last listener is called first
    process.open(["http"])
    try:
        assert process.bindings.bind("other", NAME, 1000, has_turns=True).target.is_open
    finally:
        is_over.set()
        process.close()


def test_successes_of_other_processes_keep_the_breaker_closed(database: Database, three: list[Worker]) -> None:
    three[0].fail()
    sync_all(three)
    three[1].succeed(11)
    sync_all(three)
    three[0].fail(9)
    sync_all(three)
    assert row(database).state == "closed"
    assert three[0].capacity() == LIMIT


def test_successes_before_the_first_failure_count(database: Database, new_worker: NewWorker) -> None:
    """The successes are written with the first failure, in the slots in which they were counted."""
    worker = new_worker()
    worker.succeed(6)
    worker.target.turn(time.monotonic() + 10)
    worker.succeed(6)
    worker.fail(12)
    worker.sync()
    assert row(database).state == "closed"
    slots = database.fetch(text("SELECT ok, failed FROM breaker_counts ORDER BY slot"))
    assert [tuple(found) for found in slots] in ([(6, 0), (6, 12)], [(12, 12)])
    worker.fail(1)
    worker.sync()
    found = row(database)
    assert (found.state, found.failed, found.results) == ("open", 13, 25)


def test_results_older_than_the_window_do_not_count(database: Database, new_worker: NewWorker) -> None:
    worker = new_worker()
    worker.fail(9)
    worker.sync()
    database.fetch(text("UPDATE breaker_counts SET slot = slot - 7 RETURNING 1"))
    worker.fail(9)
    worker.sync()
    assert row(database).state == "closed"
    database.fetch(text("UPDATE breaker_counts SET slot = slot - 6 RETURNING 1"))
    worker.fail(1)
    worker.sync()
    assert row(database).state == "open"


def test_retry_after_opens_the_breaker_for_its_duration(database: Database, three: list[Worker]) -> None:
    three[0].fail(retry_after_ms=3_600_000)
    three[1].fail(retry_after_ms=60_000)
    sync_all(three)
    found = row(database)
    assert (found.state, found.reason) == ("open", "RETRY_AFTER")
    assert found.open_until - database_now(database) > timedelta(seconds=3590)
    assert [worker.capacity() for worker in three] == [0] * 3
    set_past(database, "open_until")
    sync_all(three)
    assert reasons(database) == ["RETRY_AFTER"], "the row decides when the wait ends, by the database's clock"


def test_retry_after_extends_an_open_breaker(database: Database, three: list[Worker]) -> None:
    open_breaker(database, three)
    three[0].target.failed("endpoint", retry_after_ms=3_600_000)
    sync_all(three)
    found = row(database)
    assert (found.state, found.reason) == ("open", "RETRY_AFTER")
    assert found.open_until - database_now(database) > timedelta(seconds=3590)


def test_retry_after_opens_a_closed_breaker_whose_revision_the_worker_has_not_read(
    database: Database, three: list[Worker], new_worker: NewWorker
) -> None:
    open_breaker(database, three)
    close(database, NAME, "ops")
    set_past(database, "watched_until")
    worker = new_worker()
    worker.fail(retry_after_ms=3_600_000)
    worker.sync()
    found = row(database)
    assert (found.state, found.reason) == ("open", "RETRY_AFTER")


def test_manual_close_overrides_an_earlier_retry_after(database: Database, three: list[Worker]) -> None:
    three[0].fail(retry_after_ms=3_600_000)
    sync_all(three)
    assert row(database).state == "open"
    close(database, NAME, "ops")
    sync_all(three)
    assert reasons(database) == ["RETRY_AFTER", "CLOSED_BY_HAND"]
    assert [worker.capacity() for worker in three] == [LIMIT] * 3
    three[0].fail(retry_after_ms=3_600_000)
    sync_all(three)
    assert row(database).state == "open", "a new Retry-After opens the breaker again"


def test_endpoint_with_its_own_settings_has_a_separate_breaker_and_off_disables_it(
    database: Database, new_worker: NewWorker
) -> None:
    strict = {"min_results": 1, "open_for": "1s"}
    worker = new_worker(strict=strict, off="off", odd={"other": 7})
    worker.bind("strict").failed("strict")
    worker.bind("off").failed("off", retry_after_ms=60_000)
    worker.sync()
    assert worker.bind("odd") is worker.target, "invalid settings are ignored"
    assert [worker.capacity(endpoint) for endpoint in ("strict", "off", "endpoint")] == [0, LIMIT, LIMIT]
    (found,) = database.fetch(text("SELECT target FROM breakers"))
    assert found.target == BreakerSettings.of("strict", strict).key_of(NAME)


def test_failing_inline_endpoints_do_not_open_the_breaker_of_registered_endpoints(
    database: Database, new_worker: NewWorker
) -> None:
    """A key with only `jobs:send` chooses path and timeout of any URL, so it can make all of its deliveries fail."""
    worker = new_worker()
    first, second = (INLINE_PREFIX + digit * 32 for digit in "ab")
    worker.succeed(1)
    for _ in range(6):
        for name in (first, second):
            worker.bind(name).failed(name)
    worker.bind(first).failed(first, retry_after_ms=60_000)
    worker.sync()
    assert [worker.capacity(name) for name in (first, second, "endpoint")] == [0, 0, LIMIT]
    assert worker.bindings.sharing[NAME] == {first, second, "endpoint"}, "they share the connections of the host"
    (found,) = database.fetch(text("SELECT target FROM breakers WHERE state = 'open'"))
    assert found.target == f"{NAME}~inline"


def test_changed_settings_move_an_endpoint_to_another_breaker(database: Database) -> None:
    worker = Worker(database, "wrk_0", {"endpoint": {"min_results": 1}})
    worker.read_states()
    worker.fail()
    worker.sync()
    assert worker.capacity() == 0
    worker.set_rules({"endpoint": "off"})
    worker.bindings.follow()
    assert worker.capacity() == LIMIT


def test_failures_are_written_at_once_and_then_once_a_second(database: Database) -> None:
    """Otherwise each failure of one endpoint would cause a write, although other endpoints succeed."""
    worker = Worker(database, "wrk_0", publish_seconds=60)
    worker.read_states()
    worker.succeed(100)
    worker.fail(10)
    worker.sync()
    worker.fail(200)
    worker.sync()
    assert row(database).state == "closed"
    (counted,) = database.fetch(text("SELECT ok, failed FROM breaker_counts"))
    assert tuple(counted) == (100, 10)


def test_breaker_counts_as_a_reason_to_wait_for_executions_due_while_it_was_open(
    database: Database, new_worker: NewWorker
) -> None:
    """A closed breaker is no reason to wait, even while its failures are watched."""
    worker = new_worker()
    worker.fail(1)
    worker.sync()
    assert not worker.target.has_kept(-60.0), "long before the host started"
    worker.fail(9)
    worker.sync()
    assert worker.target.has_kept(time.monotonic())
    close(database, NAME, "somebody")
    worker.sync()
    assert worker.target.has_kept(time.monotonic() - 60)
    assert not worker.target.has_kept(time.monotonic())


def test_nothing_is_written_while_all_deliveries_succeed(database: Database, three: list[Worker]) -> None:
    seen: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    for worker in three:
        worker.succeed(1000)
        worker.sync()
    assert len(seen) == len(three)
    assert all("FROM breakers AS b" in statement for statement in seen)


def test_many_endpoints_write_a_bounded_number_of_rows(database: Database, new_worker: NewWorker) -> None:
    worker = new_worker()
    for number in range(100):
        worker.succeed(1, f"quick-{number}")
    worker.fail(9, "bad")
    worker.sync()
    (found,) = database.fetch(text("SELECT count(*) AS n, sum(ok) AS ok, sum(failed) AS failed FROM breaker_counts"))
    assert (found.n, found.ok, found.failed) == (51, 100, 9)


def test_breaker_endpoints_lists_each_endpoint_of_a_watched_target(database: Database, new_worker: NewWorker) -> None:
    """The endpoint `late` is bound while the breaker is open."""
    first, second, third = new_worker(), new_worker(), new_worker()
    first.bind("other")
    first.bind("elsewhere", "http:elsewhere:80")
    first.fail()
    first.sync()
    second.bind("third")
    second.sync()
    first.fail(9)
    first.sync()
    third.read_states()
    third.bind("late")
    third.sync()
    rows = database.fetch(text("SELECT target, endpoint FROM breaker_endpoints ORDER BY 1, 2"))
    names = ["endpoint", "late", "other", "third"]
    assert [tuple(found) for found in rows] == [(NAME, name) for name in names]


def test_endpoints_of_a_pruned_breaker_are_written_again(database: Database, new_worker: NewWorker) -> None:
    """Otherwise `breaker_endpoints` would not list the endpoints that wait for this breaker."""
    worker = new_worker()
    worker.fail()
    worker.sync()
    database.fetch(text("DELETE FROM breakers RETURNING 1"))
    database.fetch(text("DELETE FROM breaker_endpoints RETURNING 1"))
    worker.read_states()
    worker.fail()
    worker.sync()
    (found,) = database.fetch(text("SELECT endpoint FROM breaker_endpoints"))
    assert found.endpoint == "endpoint"


@pytest.mark.parametrize("state", ["open", "closed"])
def test_breaker_without_a_row_is_closed(database: Database, new_worker: NewWorker, state: str) -> None:
    worker = new_worker()
    worker.fail(10 if state == "open" else 1)
    worker.sync()
    assert row(database).state == state
    database.fetch(text("DELETE FROM breakers RETURNING 1"))
    worker.read_states()
    assert worker.capacity() == LIMIT
    worker.fail(10)
    worker.sync()
    assert row(database).state == "open"
