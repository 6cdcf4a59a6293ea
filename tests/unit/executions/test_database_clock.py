"""The database's clock on ours: never earlier than it is, and not much later."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from app.queue.executions.database_clock import DRIFT, QUICK_SECONDS, DatabaseClock
from tests.cases import each_case

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
MICROSECOND = 1e-6  # what a timestamp and its difference to a float of this century are exact to
SEEDS = range(20)


@dataclass
class World:
    """Two clocks, and a database whose statements and answers take their time."""

    rng: random.Random
    here: float = 1000.0
    difference: float = 5.0  # of the database's clock to ours
    rate: float = 0.0  # by how much the difference grows in a second

    def there(self) -> datetime:
        return EPOCH + timedelta(seconds=self.here + self.difference)

    def pass_(self, seconds: float) -> None:
        self.here += seconds
        self.difference += seconds * self.rate

    def ask(self, clock: DatabaseClock, way: float, work: float) -> tuple[float, float, float, float]:
        """Return what the clock says, when the statement did begin, and when it was asked and answered."""
        asked = self.here
        self.pass_(way)
        truth, began = self.here, self.there()
        self.pass_(work)
        ended = self.there()
        self.pass_(way)
        return clock.here(began, ended, asked_at=asked, answered_at=self.here), truth, asked, self.here


@each_case("seed", SEEDS)
def test_it_never_takes_an_instant_for_an_earlier_one_and_gets_better_by_quick_answers(seed: int) -> None:
    world, clock = World(random.Random(seed)), DatabaseClock()
    best = float("inf")
    for _ in range(300):
        world.rate = world.rng.uniform(-DRIFT, DRIFT)
        pause = world.rng.uniform(0, 2)
        world.pass_(pause)
        way = world.rng.choice([0.0001, 0.001, 0.3])
        told, truth, _asked, _answered = world.ask(clock, way, work=world.rng.uniform(0, 0.5))
        # Meanwhile the bound ages, and the clocks drift.
        lasted = 2 * way + 0.5
        this = way + lasted * 2 * DRIFT
        best = min(best + (pause + lasted) * 2 * DRIFT, this) if 2 * way <= QUICK_SECONDS / 2 else this
        assert truth - MICROSECOND <= told <= truth + best + MICROSECOND


@pytest.mark.parametrize("step", [-3600.0, -0.5, 0.5, 3600.0])
def test_it_follows_a_clock_that_is_set(step: float) -> None:
    world, clock = World(random.Random(0)), DatabaseClock()
    world.ask(clock, way=0.0001, work=0)
    world.difference += step
    told, truth, asked, answered = world.ask(clock, way=0.01, work=0.02)
    assert asked - MICROSECOND <= told <= answered
    assert truth - MICROSECOND <= told, "it must be late rather than early"


def test_several_servers_whose_clocks_differ_are_each_within_their_answer() -> None:
    world, clock = World(random.Random(0)), DatabaseClock()
    for turn in range(10):
        world.difference += 0.25 if turn % 2 else -0.25
        told, _truth, asked, answered = world.ask(clock, way=0.001, work=0.01)
        assert asked - MICROSECOND <= told <= answered


def test_a_server_that_is_first_asked_over_a_new_connection_is_believed_nothing_of_the_one_before() -> None:
    world, clock = World(random.Random(0)), DatabaseClock()
    world.ask(clock, way=0.0001, work=0)
    world.difference -= 0.02
    told, truth, _asked, _answered = world.ask(clock, way=0.03, work=0)
    assert truth <= told + MICROSECOND


def test_where_each_answer_may_be_of_another_server_nothing_is_learned() -> None:
    world, clock = World(random.Random(0)), DatabaseClock(learns=False)
    world.ask(clock, way=0.0001, work=0)
    world.difference -= 0.001
    told, truth, _asked, _answered = world.ask(clock, way=0.002, work=0)
    assert truth <= told + MICROSECOND
