"""Breakers over several worker processes: what each of them counts, writes, learns, and lets through."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event, text

import tests.worker_environment  # noqa: F401 - first
from app.db import Database
from app.executions.claiming.lane import Lane
from app.flow import targets as store
from app.flow.breaker import PROBE_SLACK_MS, BreakerSettings
from app.flow.breaker_pruning import prune
from app.flow.breakers import close
from brokers.breakers import Breakers
from brokers.counters import Counters
from brokers.target import Target
from brokers.targets import NO_LIMIT, Targets
from schema.states import BreakerState
from tests.rows import database_now

NAME = "http:host:80"
TIMEOUT_MS = 1000
LIMIT = 100


class Worker:
    """What a worker process knows of the target, by the name of an endpoint that leads there."""

    def __init__(
        self,
        database: Database,
        worker_id: str,
        settings: dict[str, BreakerSettings] | None = None,
        publish_seconds: float = 0,
    ) -> None:
        self._database = database
        self.worker_id = worker_id
        self.targets = Targets(LIMIT, (settings or {}).get)
        self.breakers = Breakers(database, worker_id, self.targets, Counters(), publish_seconds=publish_seconds)
        self.target = self.bind("endpoint")

    def bind(self, endpoint: str, name: str = NAME) -> Target:
        return self.targets.bind(endpoint, name, TIMEOUT_MS, has_turns=True).target

    def learn(self) -> bool:
        return self.breakers.learn(store.notable(self._database))

    def beat(self) -> None:
        """Do what te-flow does twice a second."""
        self.learn()
        self.breakers.act()

    def fail(self, count: int = 1, **options: Any) -> None:
        for _ in range(count):
            self.target.failed(**options)

    def room(self, endpoint: str = "endpoint") -> int:
        return self.targets.room(endpoint, {})


NewWorker = Callable[..., Worker]


@pytest.fixture
def new_worker(database: Database) -> NewWorker:
    numbers = iter(range(100))

    def new(**settings: BreakerSettings) -> Worker:
        worker = Worker(database, f"wrk_{next(numbers)}", settings)
        worker.learn()
        return worker

    return new


@pytest.fixture
def three(new_worker: NewWorker) -> list[Worker]:
    return [new_worker() for _ in range(3)]


def beat(workers: list[Worker]) -> None:
    """Twice: what one has written, those before it learn the second time."""
    for worker in (*workers, *workers):
        worker.beat()


def row(database: Database, target: str = NAME) -> Any:
    (found,) = database.fetch(text("SELECT * FROM breakers WHERE target = :target"), {"target": target})
    return found


def set_past(database: Database, column: str) -> None:
    database.fetch(text(f"UPDATE breakers SET {column} = now() - INTERVAL '1 second' RETURNING 1"))


def opened(database: Database, workers: list[Worker]) -> None:
    """Open the breaker by failures that no worker alone has seen enough of."""
    for worker in workers:
        worker.fail(4)
    beat(workers)
    assert [worker.room() for worker in workers] == [0] * len(workers)


def half_open(database: Database, workers: list[Worker]) -> Worker:
    """Let the breaker be open for its time, and each worker ask for the probe; returns who may send it."""
    set_past(database, "open_until")
    for worker in workers:
        worker.learn()
        assert worker.room() == 0, "nothing may be claimed before the right to it is won"
    beat(workers)
    (prober,) = [worker for worker in workers if worker.room() == 1]
    assert sum(worker.room() for worker in workers) == 1
    return prober


def reasons(database: Database) -> list[str]:
    rows = database.fetch(text("SELECT reason FROM breaker_events ORDER BY occurred_at, event_id"))
    return [found.reason for found in rows]


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
    assert not idle.target.take_probe(object())


def test_successes_elsewhere_keep_it_open_to_all(database: Database, three: list[Worker]) -> None:
    three[0].fail()
    beat(three)
    three[1].target.tally[0] += 11
    beat(three)
    three[0].fail(9)
    beat(three)
    assert row(database).state == "closed"
    assert three[0].room() == LIMIT


def test_one_of_all_processes_probes_and_its_success_opens_for_all(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    prober = half_open(database, three)
    assert row(database).probe_worker == prober.worker_id
    first, second = object(), object()
    assert prober.target.take_probe(first)
    assert not prober.target.take_probe(second)
    assert (prober.target.lets(first), prober.target.lets(second)) == (True, False)
    assert prober.room() == 0
    beat(three)
    assert row(database).state == "half_open", "no result yet"

    prober.target.probed(second, failed=False)  # was claimed before, and is under way all the same
    prober.target.probed(first, failed=False)
    beat(three)
    assert [worker.room() for worker in three] == [LIMIT] * 3
    found = row(database)
    assert (found.state, found.failed, found.open_until) == ("closed", None, None)
    assert reasons(database) == ["FAILURES", "PROBE", "PROBE_SUCCEEDED"]
    # What failed before is forgotten.
    three[1].fail(9)
    beat(three)
    assert row(database).state == "closed"


def test_a_probe_that_fails_shuts_it_again(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    prober = half_open(database, three)
    attempt = object()
    assert prober.target.take_probe(attempt)
    prober.target.failed()
    prober.target.probed(attempt, failed=True)
    beat(three)
    found = row(database)
    assert found.state == "open"
    assert found.open_until - found.changed_at == timedelta(seconds=30)
    assert [worker.room() for worker in three] == [0] * 3
    half_open(database, three)


@pytest.mark.parametrize("is_taken", [True, False])
def test_a_probe_that_is_not_sent_leaves_it_to_others(database: Database, three: list[Worker], is_taken: bool) -> None:
    """What it was won for may be gone, or handed back before its first byte."""
    opened(database, three)
    prober = half_open(database, three)
    attempt = object()
    if is_taken:
        assert prober.target.take_probe(attempt)
        prober.target.probed(attempt, None)
    else:
        assert prober.target.probe is not None
        prober.target.probe.until = time.monotonic()
        assert not prober.target.take_probe(attempt)
    prober.beat()
    assert row(database).state == "open"
    assert half_open(database, three) is not prober, "it leaves the next one to those who may have room"


def test_what_began_before_it_opened_leaves_room_for_the_probe(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    prober = half_open(database, three)
    assert prober.targets.room("endpoint", {"endpoint": 0}) == 1
    hanging = prober.bind("hanging")
    assert hanging is prober.target
    assert [prober.targets.room("hanging", {"hanging": held}) for held in (10, 11)] == [1, 0]


def test_a_prober_that_dies_is_followed_by_another(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    dead = half_open(database, three)
    found = row(database)
    assert found.probe_until - found.changed_at == timedelta(milliseconds=TIMEOUT_MS + PROBE_SLACK_MS)
    others = [worker for worker in three if worker is not dead]
    beat(others)
    assert [worker.room() for worker in others] == [0, 0]
    set_past(database, "probe_until")
    for worker in others:
        worker.learn()
        assert worker.room() == 0
    beat(others)
    assert sum(worker.room() for worker in others) == 1
    # If it was only slow: it may not begin any more, and what it has to tell changes nothing.
    attempt = object()
    dead.target.take_probe(attempt)
    dead.target.probed(attempt, failed=False)
    dead.breakers.act()
    assert row(database).state == "half_open"


def test_a_right_whose_grant_was_lost_on_the_way_is_found_again(database: Database, three: list[Worker]) -> None:
    opened(database, three)
    set_past(database, "open_until")
    (before,) = store.notable(database).breakers
    wanted = three[0].target.decide({})
    assert wanted is None, "it does not know yet that the time has come"
    three[0].learn()
    wanted = three[0].target.decide({})
    assert wanted is not None
    assert wanted.to is BreakerState.HALF_OPEN
    assert store.change(database, before, wanted._replace(for_ms=60_000), three[0].worker_id) is not None
    beat(three)
    assert [worker.room() for worker in three] == [1, 0, 0]


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
    worker.bind("strict").failed()
    worker.bind("off").failed(retry_after_ms=60_000)
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
    assert worker.targets.follow_settings(1)
    assert not worker.targets.follow_settings(1)
    assert worker.room() == LIMIT


def test_no_more_is_claimed_than_finds_a_connection(database: Database, new_worker: NewWorker) -> None:
    """Over all endpoints of a host, and before it is known where an endpoint leads."""
    worker = new_worker()
    worker.bind("other")
    worker.bind("elsewhere", "http:elsewhere:80")
    held = {"endpoint": 30, "other": 50, "elsewhere": 7, "unknown": 3}
    room = {endpoint: worker.targets.room(endpoint, held) for endpoint in (*held, "new")}
    assert room == {"endpoint": 20, "other": 20, "elsewhere": 93, "unknown": 97, "new": 100}
    worker.bind("other", "http:elsewhere:80")
    assert worker.targets.room("endpoint", held) == 70
    worker.targets.bind("records", "kafka:a:1", TIMEOUT_MS, has_turns=False)
    assert worker.targets.room("records", {"records": 1000}) == NO_LIMIT


def test_lanes_of_one_pick_share_the_connections_to_their_host(database: Database, new_worker: NewWorker) -> None:
    worker = new_worker()
    worker.bind("other")
    worker.bind("elsewhere", "http:elsewhere:80")
    held, asked = {"endpoint": 30, "other": 50}, list[tuple[str, int]]()

    def reserve(endpoint: str, most: int) -> int:
        asked.append((endpoint, most))
        return min(most, 15)

    take = worker.targets.taking(held, reserve)
    got = [take(Lane(0, endpoint, "", 128), 90) for endpoint in ("endpoint", "other", "other", "elsewhere")]
    assert got == [15, 5, 0, 15]
    assert asked == [("endpoint", 20), ("other", 5), ("other", 0), ("elsewhere", 90)]


def test_a_process_for_which_alone_it_fails_neither_shuts_it_nor_asks_at_each_failure(
    database: Database, new_worker: NewWorker
) -> None:
    broken, *others = Worker(database, "wrk_broken", publish_seconds=60), new_worker(), new_worker()
    broken.learn()
    broken.fail(1)
    broken.beat()  # from now on the others count too
    for other in others:
        other.target.tally[0] += 10
        other.beat()
    broken.fail(40)
    assert broken.target.is_pressing()
    broken.beat()
    broken.fail(40)
    assert not broken.target.is_pressing()
    assert row(database).state == "closed"
    assert broken.room() == LIMIT


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


def test_a_probe_has_the_time_of_the_longest_delivery(database: Database, new_worker: NewWorker) -> None:
    """Also of a version that came later."""
    worker = new_worker()
    worker.targets.bind("endpoint", NAME, 60_000, has_turns=True)
    worker.fail(10)
    worker.beat()
    half_open(database, [worker])
    found = row(database)
    assert found.probe_until - found.changed_at == timedelta(milliseconds=60_000 + PROBE_SLACK_MS)


def test_nothing_is_written_while_all_is_well(database: Database, three: list[Worker]) -> None:
    seen: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    for worker in three:
        worker.target.tally[0] += 1000
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
