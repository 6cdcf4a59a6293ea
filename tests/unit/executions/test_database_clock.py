"""Estimate of the database's clock: never early, and only slightly late."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from app.queue.executions.database_clock import DRIFT, QUICK_SECONDS, DatabaseClock
from tests.cases import each_case

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MICROSECOND = 1e-6  # precision of a timestamp, and of its difference to a float of this century
SEEDS = range(20)


@dataclass
class World:
    """Two clocks, and a database with delays of statements and answers."""

    rng: random.Random
    here: float = 1000.0
    difference: float = 5.0  # database clock minus local clock
    rate: float = 0.0  # growth of the difference per second

    def there(self) -> datetime:
        return EPOCH + timedelta(seconds=self.here + self.difference)

    def pass_(self, seconds: float) -> None:
        self.here += seconds
        self.difference += seconds * self.rate

    def ask(self, clock: DatabaseClock, way: float, work: float) -> tuple[float, float, float, float]:
        """Return the clock's estimate, the true begin of the statement, and the times of question and answer."""
        asked = self.here
        self.pass_(way)
        truth, began = self.here, self.there()
        self.pass_(work)
        ended = self.there()
        self.pass_(way)
        return clock.here(began, ended, asked_at=asked, answered_at=self.here), truth, asked, self.here


@each_case("seed", SEEDS)
def test_estimate_is_never_early_and_improves_with_quick_answers(seed: int) -> None:
    world, clock = World(random.Random(seed)), DatabaseClock()
    best = float("inf")
    for _ in range(300):
        world.rate = world.rng.uniform(-DRIFT, DRIFT)
        pause = world.rng.uniform(0, 2)
        world.pass_(pause)
        way = world.rng.choice([0.0001, 0.001, 0.3])
        estimate, truth, _asked, _answered = world.ask(clock, way, work=world.rng.uniform(0, 0.5))
        # The bound ages during the statement, and the clocks drift.
        lasted = 2 * way + 0.5
        this = way + lasted * 2 * DRIFT
        best = min(best + (pause + lasted) * 2 * DRIFT, this) if 2 * way <= QUICK_SECONDS / 2 else this
        assert truth - MICROSECOND <= estimate <= truth + best + MICROSECOND


@pytest.mark.parametrize("step", [-3600.0, -0.5, 0.5, 3600.0])
def test_estimate_follows_a_clock_that_is_set(step: float) -> None:
    world, clock = World(random.Random(0)), DatabaseClock()
    world.ask(clock, way=0.0001, work=0)
    world.difference += step
    estimate, truth, asked, answered = world.ask(clock, way=0.01, work=0.02)
    assert asked - MICROSECOND <= estimate <= answered
    assert truth - MICROSECOND <= estimate, "the estimate is early"


def test_estimates_for_servers_with_different_clocks_lie_within_their_answers() -> None:
    world, clock = World(random.Random(0)), DatabaseClock()
    for turn in range(10):
        world.difference += 0.25 if turn % 2 else -0.25
        estimate, _truth, asked, answered = world.ask(clock, way=0.001, work=0.01)
        assert asked - MICROSECOND <= estimate <= answered


def test_first_answer_of_a_new_connection_does_not_use_the_clock_of_the_server_before() -> None:
    world, clock = World(random.Random(0)), DatabaseClock()
    world.ask(clock, way=0.0001, work=0)
    world.difference -= 0.02
    estimate, truth, _asked, _answered = world.ask(clock, way=0.03, work=0)
    assert truth <= estimate + MICROSECOND


def test_clock_learns_nothing_when_each_answer_may_come_from_another_server() -> None:
    world, clock = World(random.Random(0)), DatabaseClock(learns=False)
    world.ask(clock, way=0.0001, work=0)
    world.difference -= 0.001
    estimate, truth, _asked, _answered = world.ask(clock, way=0.002, work=0)
    assert truth <= estimate + MICROSECOND
