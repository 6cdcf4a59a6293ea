"""Breakers over several worker processes: what each of them counts, writes, reads, and lets through."""

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from app.features.breakers.rules import BreakerSettings
from app.features.breakers.store import close
from app.kernel.db import Database, connect
from tests.contract.conftest import worker_process
from tests.contract.features.breakers.breaking import (
    LIMIT,
    NAME,
    NewWorker,
    Worker,
    beat,
    opened,
    reasons,
    row,
    set_past,
)
from tests.rows import database_now


def test_failures_of_several_processes_together_open_the_breaker_for_all(
    database: Database, three: list[Worker], new_worker: NewWorker
) -> None:
    idle, stranger = new_worker(), new_worker()
    opened(database, three)
    for worker in (idle, stranger):
        worker.learn()
    assert idle.room() == 0
    assert stranger.bind("other").is_open, "an endpoint that is bound later is behind it as well"
    found = row(database)
    assert (found.state, found.reason, found.failed, found.results) == ("open", "FAILURES", 12, 12)
    assert reasons(database) == ["FAILURES"]
    # Claimed executions that have not started wait as well.
    assert not idle.target.lets(object())
    assert not idle.probe(object())


def test_a_process_that_starts_knows_what_is_open_before_its_first_claim(
    database: Database, database_url: str, three: list[Worker]
) -> None:
    """Its consumers and te-flow start side by side: either may be the first to ask the database."""
    opened(database, three)
    process = worker_process(database, connect(database_url, pool_size=1, application_name="te-test-lease"))
    is_over = threading.Event()
    process.flow.on_pulse(lambda _pulse: bool(is_over.wait()))  # the last listener is called first
    process.open(["http"])
    try:
        assert process.bindings.bind("other", NAME, 1000, has_turns=True).target.is_open
    finally:
        is_over.set()
        process.close()


def test_successes_of_other_processes_keep_it_closed(database: Database, three: list[Worker]) -> None:
    three[0].fail()
    beat(three)
    three[1].succeed(11)
    beat(three)
    three[0].fail(9)
    beat(three)
    assert row(database).state == "closed"
    assert three[0].room() == LIMIT


def test_successes_before_the_first_failure_count(database: Database, new_worker: NewWorker) -> None:
    """They are written with the first failure, in the slots in which they were counted."""
    worker = new_worker()
    worker.succeed(6)
    worker.target.turn(time.monotonic() + 10)
    worker.succeed(6)
    worker.fail(12)
    worker.beat()
    assert row(database).state == "closed"
    slots = database.fetch(text("SELECT ok, failed FROM breaker_counts ORDER BY slot"))
    assert [tuple(found) for found in slots] in ([(6, 0), (6, 12)], [(12, 12)])
    worker.fail(1)
    worker.beat()
    found = row(database)
    assert (found.state, found.failed, found.results) == ("open", 13, 25)


def test_results_that_are_older_than_the_window_do_not_count(database: Database, new_worker: NewWorker) -> None:
    worker = new_worker()
    worker.fail(9)
    worker.beat()
    database.fetch(text("UPDATE breaker_counts SET slot = slot - 7 RETURNING 1"))
    worker.fail(9)
    worker.beat()
    assert row(database).state == "closed"
    database.fetch(text("UPDATE breaker_counts SET slot = slot - 6 RETURNING 1"))
    worker.fail(1)
    worker.beat()
    assert row(database).state == "open"


def test_a_receiver_that_asks_for_it_is_left_alone_for_that_long(database: Database, three: list[Worker]) -> None:
    three[0].fail(retry_after_ms=3_600_000)
    three[1].fail(retry_after_ms=60_000)
    beat(three)
    found = row(database)
    assert (found.state, found.reason) == ("open", "RETRY_AFTER")
    assert found.open_until - database_now(database) > timedelta(seconds=3590)
    assert [worker.room() for worker in three] == [0] * 3


def test_a_receiver_that_asks_while_the_breaker_is_open_lengthens_it(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    three[0].target.failed("endpoint", retry_after_ms=3_600_000)
    beat(three)
    found = row(database)
    assert (found.state, found.reason) == ("open", "RETRY_AFTER")
    assert found.open_until - database_now(database) > timedelta(seconds=3590)


def test_retry_after_opens_a_closed_breaker_of_which_a_new_worker_knows_no_revision(
    database: Database, three: list[Worker], new_worker: NewWorker
) -> None:
    opened(database, three)
    close(database, NAME, "ops")
    set_past(database, "watched_until")
    worker = new_worker()
    worker.fail(retry_after_ms=3_600_000)
    worker.beat()
    found = row(database)
    assert (found.state, found.reason) == ("open", "RETRY_AFTER")


def test_a_manual_close_holds_whatever_the_receiver_had_asked_for(database: Database, three: list[Worker]) -> None:
    three[0].fail(retry_after_ms=3_600_000)
    beat(three)
    assert row(database).state == "open"
    close(database, NAME, "ops")
    beat(three)
    assert reasons(database) == ["RETRY_AFTER", "CLOSED_BY_HAND"]
    assert [worker.room() for worker in three] == [LIMIT] * 3
    three[0].fail(retry_after_ms=3_600_000)
    beat(three)
    assert row(database).state == "open", "it asks again"


def test_own_settings_make_a_separate_breaker_and_off_none(database: Database, new_worker: NewWorker) -> None:
    strict = {"min_results": 1, "open_for": "1s"}
    worker = new_worker(strict=strict, off="off", odd={"other": 7})
    worker.bind("strict").failed("strict")
    worker.bind("off").failed("off", retry_after_ms=60_000)
    worker.beat()
    assert worker.bind("odd") is worker.target, "invalid settings are left out"
    assert [worker.room(endpoint) for endpoint in ("strict", "off", "endpoint")] == [0, LIMIT, LIMIT]
    (found,) = database.fetch(text("SELECT target FROM breakers"))
    assert found.target == BreakerSettings.of("strict", strict).key_of(NAME)


def test_changed_settings_move_an_endpoint_to_another_breaker(database: Database) -> None:
    worker = Worker(database, "wrk_0", {"endpoint": {"min_results": 1}})
    worker.learn()
    worker.fail()
    worker.beat()
    assert worker.room() == 0
    worker.set_rules({"endpoint": "off"})
    worker.bindings.follow()
    assert worker.room() == LIMIT


def test_failures_are_written_at_once_and_then_once_a_second(database: Database) -> None:
    """Else an endpoint that fails beside others that work would write at each failure."""
    worker = Worker(database, "wrk_0", publish_seconds=60)
    worker.learn()
    worker.succeed(100)
    worker.fail(10)
    worker.beat()
    worker.fail(200)
    worker.beat()
    assert row(database).state == "closed"
    (counted,) = database.fetch(text("SELECT ok, failed FROM breaker_counts"))
    assert tuple(counted) == (100, 10)


def test_executions_that_were_due_while_a_breaker_was_open_may_have_waited_for_it(
    database: Database, new_worker: NewWorker
) -> None:
    """A breaker that is only watched keeps nothing waiting."""
    worker = new_worker()
    worker.fail(1)
    worker.beat()
    assert not worker.target.has_kept(-60.0), "long before the host started"
    worker.fail(9)
    worker.beat()
    assert worker.target.has_kept(time.monotonic())
    close(database, NAME, "somebody")
    worker.beat()
    assert worker.target.has_kept(time.monotonic() - 60)
    assert not worker.target.has_kept(time.monotonic())


def test_nothing_is_written_while_all_deliveries_succeed(database: Database, three: list[Worker]) -> None:
    seen: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    for worker in three:
        worker.succeed(1000)
        worker.beat()
    assert len(seen) == len(three)
    assert all("FROM breakers AS b" in statement for statement in seen)


def test_very_many_endpoints_write_a_bounded_number_of_rows(database: Database, new_worker: NewWorker) -> None:
    worker = new_worker()
    for number in range(100):
        worker.succeed(1, f"quick-{number}")
    worker.fail(9, "bad")
    worker.beat()
    (found,) = database.fetch(text("SELECT count(*) AS n, sum(ok) AS ok, sum(failed) AS failed FROM breaker_counts"))
    assert (found.n, found.ok, found.failed) == (51, 100, 9)


def test_the_endpoints_that_lead_to_a_watched_target_are_known(database: Database, new_worker: NewWorker) -> None:
    """Also an endpoint that comes while the breaker is open."""
    first, second, third = new_worker(), new_worker(), new_worker()
    first.bind("other")
    first.bind("elsewhere", "http:elsewhere:80")
    first.fail()
    first.beat()
    second.bind("third")
    second.beat()
    first.fail(9)
    first.beat()
    third.learn()
    third.bind("late")
    third.beat()
    rows = database.fetch(text("SELECT target, endpoint FROM breaker_endpoints ORDER BY 1, 2"))
    names = ["endpoint", "late", "other", "third"]
    assert [tuple(found) for found in rows] == [(NAME, name) for name in names]


def test_the_endpoints_of_a_breaker_that_was_pruned_are_written_again(
    database: Database, new_worker: NewWorker
) -> None:
    """Or nobody would know, weeks later, what waits for it."""
    worker = new_worker()
    worker.fail()
    worker.beat()
    database.fetch(text("DELETE FROM breakers RETURNING 1"))
    database.fetch(text("DELETE FROM breaker_endpoints RETURNING 1"))
    worker.learn()
    worker.fail()
    worker.beat()
    (found,) = database.fetch(text("SELECT endpoint FROM breaker_endpoints"))
    assert found.endpoint == "endpoint"


@pytest.mark.parametrize("state", ["open", "closed"])
def test_a_breaker_whose_row_was_deleted_is_closed(database: Database, new_worker: NewWorker, state: str) -> None:
    worker = new_worker()
    worker.fail(10 if state == "open" else 1)
    worker.beat()
    assert row(database).state == state
    database.fetch(text("DELETE FROM breakers RETURNING 1"))
    worker.learn()
    assert worker.room() == LIMIT
    worker.fail(10)
    worker.beat()
    assert row(database).state == "open"
