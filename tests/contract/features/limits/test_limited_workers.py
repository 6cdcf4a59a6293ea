"""Workers at endpoints with limits or a pause: starts and waits, over several processes, until capacity is free."""

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

import pytest

from app.kernel.db import Database
from app.queue.claiming.partition import Partition
from brokers.attempt import LATEST_SECONDS, Attempt, Stage
from tests import rows
from tests.claiming import TARGET, add_to
from tests.contract.conftest import StartWorker
from tests.target_rules import set_rules
from tests.verdicts import success
from tests.waiting import eventually

OTHER = Partition(0, "other", "", 128)


class Receiver:
    """Actor body that holds each delivery until it is released; counts the concurrent deliveries per key."""

    def __init__(self) -> None:
        self.open: dict[str, list[Attempt]] = defaultdict(list)  # by limit key, or endpoint
        self.most: Counter[str] = Counter()
        self.seen: list[Attempt] = []
        self.holds = True
        self._lock = threading.Lock()

    def __call__(self, attempt: Attempt) -> None:
        assert attempt.enter(Stage.TAKEN)
        assert attempt.enter(Stage.STARTED)
        name = attempt.claim.limit_key or attempt.claim.endpoint
        with self._lock:
            self.seen.append(attempt)
            self.open[name].append(attempt)
            self.most[name] = max(self.most[name], len(self.open[name]))
            self.most["all"] = max(self.most["all"], sum(map(len, self.open.values())))
        if not self.holds:
            self.succeed(name)

    def succeed(self, name: str = "target") -> None:
        """Complete one open delivery of this name, if any."""
        with self._lock:
            attempt = self.open[name].pop() if self.open[name] else None
        if attempt is not None:
            attempt.complete(success({}))

    def count(self, name: str = "target") -> int:
        return len(self.open[name])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.holds = False
    for name in list(receiver.open):
        while receiver.open[name]:
            receiver.succeed(name)


def test_concurrency_limit_holds_over_all_processes_and_each_completion_starts_the_next_execution(
    database: Database, start_worker: StartWorker, receiver: Receiver
) -> None:
    rows.add_endpoint(database, "other")
    set_rules(database, {"max_in_flight": 3})
    late = add_to(database, TARGET, 12)
    for _ in range(3):
        start_worker(receiver)
    eventually(lambda: receiver.count() == 3, what="three deliveries to run")
    add_to(database, OTHER, 5)
    eventually(lambda: receiver.count("other") == 5, what="all deliveries of the other endpoint to run")
    for done in range(1, 10):
        receiver.succeed()
        eventually(lambda done=done: len(receiver.seen) == 5 + 3 + done, what="the next delivery to start")  # type: ignore[misc]
    assert receiver.most["target"] == 3
    assert sorted(
        attempt.claim.execution_id for attempt in receiver.seen if attempt.claim.endpoint == "target"
    ) == sorted(late)
    assert {attempt.claim.attempt for attempt in receiver.seen} == {1}


def test_waiting_executions_start_after_limits_are_lowered_and_removed(
    database: Database, start_worker: StartWorker, receiver: Receiver
) -> None:
    set_rules(database, {"max_in_flight": 4})
    late = add_to(database, TARGET, 40)
    _, process = start_worker(receiver)
    eventually(lambda: receiver.count() == 4, what="four deliveries to run")
    set_rules(database, {"max_in_flight": 1})
    eventually(lambda: process.rules.of("target").limits.max_in_flight == 1, what="the new limit to apply")  # type: ignore[union-attr]
    for left in (3, 2, 1):
        receiver.succeed()
        assert receiver.count() == left
    receiver.succeed()
    eventually(lambda: receiver.count() == 1, what="one delivery to run")
    assert len(receiver.seen) == 5
    receiver.holds = False
    set_rules(database, None)
    eventually(lambda: len(receiver.seen) == 40, what="all deliveries to run")
    assert sorted(attempt.claim.execution_id for attempt in receiver.seen) == sorted(late)


def test_paused_endpoint_starts_nothing_until_it_is_resumed(
    database: Database, start_worker: StartWorker, receiver: Receiver
) -> None:
    rows.add_endpoint(database, "other")
    set_rules(database, paused=True)
    add_to(database, TARGET, 30)
    start_worker(receiver, poll_interval_ms=60_000)
    add_to(database, OTHER, 5, due_in=0.5)
    eventually(lambda: receiver.count("other") == 5, what="all deliveries of the other endpoint to run")
    assert receiver.count() == 0
    assert rows.statuses(database) == {"QUEUED": 30, "RUNNING": 5}
    receiver.holds = False
    set_rules(database)
    eventually(
        lambda: sum(each.claim.endpoint == "target" for each in receiver.seen) == 30, what="all deliveries to run"
    )
    set_rules(database, paused=True)


def test_backlog_of_one_key_does_not_take_the_turns_of_other_keys(
    database: Database, start_worker: StartWorker, receiver: Receiver
) -> None:
    """The backlog of 400 executions is older than the executions of the other keys."""
    keys = [f"=tenant{number}" for number in range(30)]
    set_rules(database, {"max_in_flight": 8, "per_key": {"key": "{{input.tenant}}", "max_in_flight": 2}})
    add_to(database, TARGET._replace(limit_key="=big"), 400, due_in=-60)
    for key in keys:
        add_to(database, TARGET._replace(limit_key=key), 3)
    for _ in range(2):
        start_worker(receiver)
    eventually(lambda: sum(map(len, receiver.open.values())) == 8, what="eight deliveries to run")
    receiver.holds = False
    for name in list(receiver.open):
        while receiver.open[name]:
            receiver.succeed(name)
    small = lambda: sum(each.claim.limit_key in keys for each in list(receiver.seen))  # noqa: E731
    eventually(lambda: small() == 90, what="all deliveries of the small keys to run")
    big = sum(each.claim.limit_key == "=big" for each in list(receiver.seen))
    assert big < 200, "the big backlog was served before the other keys had their turns"
    assert receiver.most["all"] <= 8
    assert max(count for key, count in receiver.most.items() if key.startswith("=")) <= 2


def test_rate_gives_each_start_its_own_instant(
    database: Database, start_worker: StartWorker, receiver: Receiver
) -> None:
    """Two processes take turns, so the instants come from the database's clock."""
    set_rules(database, {"rate": {"count": 50, "per": "1s", "burst": 1}})
    add_to(database, TARGET, 60)
    receiver.holds = False
    for _ in range(2):
        start_worker(receiver)
    eventually(lambda: len(receiver.seen) == 60, what="all deliveries to run")
    starts = sorted(each.claim.claimed_at.timestamp() + max(0.0, each.claim.due_in_seconds) for each in receiver.seen)
    assert all(after - before >= 0.02 - 1e-6 for before, after in pairwise(starts))


@pytest.mark.parametrize(
    ("per", "delay"), [(None, math.inf), ("10s", LATEST_SECONDS), ("1h", 36.0)], ids=["none", "short", "long"]
)
def test_window_bounds_the_delay_of_a_start(
    database: Database, start_worker: StartWorker, receiver: Receiver, per: str | None, delay: float
) -> None:
    rate = {"rate": {"count": 2, "per": per, "window": "sliding"}}
    set_rules(database, {"max_in_flight": 2} if per is None else rate)
    add_to(database, TARGET)
    start_worker(receiver)
    eventually(lambda: receiver.count() == 1, what="the delivery to start")
    (attempt,) = receiver.seen
    assert attempt.latest_at - attempt.due_at == pytest.approx(delay)
