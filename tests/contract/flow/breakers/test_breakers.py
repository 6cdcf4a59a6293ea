"""Breakers over several worker processes: what each of them counts, writes, learns, and lets through."""

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

from app.features.breakers.breaker_pruning import prune
from app.features.breakers.rules import BreakerSettings
from app.features.breakers.store import close
from app.kernel.db import Database, connect
from tests.contract.conftest import worker_process
from tests.contract.flow.breakers.breaking import (
    LIMIT,
    NAME,
    NewWorker,
    Worker,
    beat,
    failed_before,
    opened,
    reasons,
    row,
)
from tests.rows import database_now


def test_failures_that_no_process_has_seen_enough_of_shut_the_target_for_all(
    database: Database, three: list[Worker], new_worker: NewWorker
) -> None:
    idle, stranger = new_worker(), new_worker()
    stranger.targets.bound.clear()
    opened(database, three)
    for worker in (idle, stranger):
        worker.learn()
    assert idle.room() == 0
    assert stranger.bind("other").is_shut, "it learns where an endpoint leads after the breaker was opened"
    found = row(database)
    assert (found.state, found.reason, found.failed, found.results) == ("open", "FAILURES", 12, 12)
    assert reasons(database) == ["FAILURES"]
    # Nothing but the probe may be sent any more, also of what was claimed before.
    assert not idle.target.lets(object())
    assert not idle.target.take_probe(object(), "endpoint")


def test_a_process_that_starts_knows_what_is_open_before_its_first_claim(
    database: Database, database_url: str, three: list[Worker]
) -> None:
    """Its consumers and te-flow start side by side: either may be the first to ask the database."""
    opened(database, three)
    process = worker_process(database, connect(database_url, pool_size=1, application_name="te-test-lease"))
    is_over = threading.Event()
    process.flow.on_pulse(lambda _pulse: bool(is_over.wait()))  # who listens last is told first
    process.open(["http"])
    try:
        assert process.targets.bind("other", NAME, 1000, has_turns=True).target.is_shut
    finally:
        is_over.set()
        process.close()


def test_successes_elsewhere_keep_it_open_to_all(database: Database, three: list[Worker]) -> None:
    three[0].fail()
    beat(three)
    three[1].succeed(11)
    beat(three)
    three[0].fail(9)
    beat(three)
    assert row(database).state == "closed"
    assert three[0].room() == LIMIT


def test_a_receiver_that_asks_for_it_is_left_alone_for_that_long(database: Database, three: list[Worker]) -> None:
    three[0].fail(retry_after_ms=3_600_000)
    three[1].fail(retry_after_ms=60_000)
    beat(three)
    found = row(database)
    assert (found.state, found.reason) == ("open", "RETRY_AFTER")
    assert found.open_until - database_now(database) > timedelta(seconds=3590)
    assert [worker.room() for worker in three] == [0] * 3


def test_what_is_closed_by_hand_stays_so_whatever_the_receiver_had_asked_for(
    database: Database, three: list[Worker]
) -> None:
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


def test_own_settings_make_a_breaker_of_its_own_and_off_none(database: Database, new_worker: NewWorker) -> None:
    strict = BreakerSettings(min_results=1, open_for_ms=1_000)
    worker = new_worker(strict=strict, off=BreakerSettings(is_off=True))
    worker.bind("strict").failed("strict")
    worker.bind("off").failed("off", retry_after_ms=60_000)
    worker.beat()
    assert [worker.room(endpoint) for endpoint in ("strict", "off", "endpoint")] == [0, LIMIT, LIMIT]
    (found,) = database.fetch(text("SELECT target FROM breakers"))
    assert found.target == strict.key_of(NAME)


def test_settings_that_change_move_an_endpoint_to_another_breaker(database: Database) -> None:
    settings = {"endpoint": BreakerSettings(min_results=1)}
    worker = Worker(database, "wrk_0", settings)
    worker.learn()
    worker.fail()
    worker.beat()
    assert worker.room() == 0
    settings["endpoint"] = BreakerSettings(is_off=True)
    assert worker.targets.follow(1)
    assert not worker.targets.follow(1)
    assert worker.room() == LIMIT


def test_a_process_for_which_alone_it_fails_neither_shuts_it_nor_asks_at_each_failure(
    database: Database, new_worker: NewWorker
) -> None:
    broken, *others = Worker(database, "wrk_broken", publish_seconds=60), new_worker(), new_worker()
    broken.learn()
    broken.fail(1)
    broken.beat()  # from now on the others count too
    for other in others:
        other.succeed(10)
        other.beat()
    broken.fail(40)
    assert broken.target.is_pressing()
    broken.beat()
    broken.fail(40)
    assert not broken.target.is_pressing()
    assert row(database).state == "closed"
    assert broken.room() == LIMIT


@pytest.mark.parametrize("is_known", [True, False], ids=["with their rows", "without a row"])
def test_a_machine_for_which_alone_it_fails_does_not_shut_it(database: Database, is_known: bool) -> None:
    """All processes of a machine without a network fail, and sooner than those of others have a result."""
    first, *broken = [Worker(database, f"wrk_{number}", host="broken") for number in range(5)]
    sound = Worker(database, "wrk_sound", host="sound" if is_known else "")
    failed_before(database, first.worker_id)
    beat([*broken, sound])
    sound.succeed(10)
    sound.beat()
    for worker in broken:
        worker.fail(30)
    beat(broken)
    assert row(database).state == "closed"
    sound.fail(11)
    beat([sound])
    found = row(database)
    assert (found.state, found.failed, found.results) == ("open", 132, 142), "now it fails for all"


def test_a_process_for_which_alone_it_fails_does_not_shut_it_for_its_machine(database: Database) -> None:
    """It may have no open files left."""
    broken, *sound = [Worker(database, f"wrk_{number}", host="one") for number in range(3)]
    failed_before(database, broken.worker_id, 30)
    for worker in sound:
        worker.learn()
        worker.fail(1, "bad")
        worker.succeed(10, "bad")
    beat(sound)
    assert row(database).state == "closed"


def test_what_was_due_while_a_target_was_shut_may_have_waited_for_it(database: Database, new_worker: NewWorker) -> None:
    """One that is only watched keeps nothing waiting."""
    worker = new_worker()
    worker.fail(1)
    worker.beat()
    assert not worker.target.has_kept(time.monotonic() - 60)
    worker.fail(9)
    worker.beat()
    assert worker.target.has_kept(time.monotonic())
    close(database, NAME, "somebody")
    worker.beat()
    assert worker.target.has_kept(time.monotonic() - 60)
    assert not worker.target.has_kept(time.monotonic())


def test_nothing_is_written_while_all_is_well(database: Database, three: list[Worker]) -> None:
    seen: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    for worker in three:
        worker.succeed(1000)
        worker.beat()
    assert len(seen) == len(three)
    assert all(" breakers AS b ON" in statement for statement in seen)


def test_the_endpoints_that_lead_to_a_watched_target_are_known(database: Database, new_worker: NewWorker) -> None:
    first, second = new_worker(), new_worker()
    first.bind("other")
    first.bind("elsewhere", "http:elsewhere:80")
    first.fail()
    first.beat()
    second.bind("third")
    second.learn()
    second.beat()
    rows = database.fetch(text("SELECT target, endpoint FROM breaker_endpoints ORDER BY 1, 2"))
    assert [tuple(found) for found in rows] == [(NAME, "endpoint"), (NAME, "other"), (NAME, "third")]


def test_the_endpoints_of_a_breaker_that_was_pruned_are_told_again(database: Database, new_worker: NewWorker) -> None:
    """Or nobody would know, weeks later, what waits for it."""
    worker = new_worker()
    worker.fail()
    worker.beat()
    database.fetch(text("UPDATE breakers SET watched_until = now() - INTERVAL '2 hours' RETURNING 1"))
    assert prune(database, limit=9) == 1
    assert database.fetch(text("SELECT endpoint FROM breaker_endpoints")) == []
    worker.learn()
    worker.fail()
    worker.beat()
    (found,) = database.fetch(text("SELECT endpoint FROM breaker_endpoints"))
    assert found.endpoint == "endpoint"
