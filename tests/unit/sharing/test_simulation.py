"""What partitions and shares do together: endpoints that hang leave the others what they need, in simulated time."""

import random
from collections.abc import Iterable

from brokers.sharing.quota import max_claims
from tests.unit.sharing.simulation import HANGS_SECONDS, Endpoint, Simulation, hanging, quick

PER_ENDPOINT = 7.5  # executions a second
QUICK = 180
HANGING = 20


def quick_ones(*, rate: float = PER_ENDPOINT) -> list[Endpoint]:
    seed = random.Random(2)
    return [quick(number, seed, rate=rate) for number in range(QUICK)]


def simulate(endpoints: Iterable[Endpoint], until: float, counted_from: float = 0.0) -> Simulation:
    simulation = Simulation(endpoints)
    simulation.counted_from = counted_from
    simulation.run(until)
    assert simulation.most_held <= max_claims(simulation.shares.capacity)
    return simulation


def test_twenty_of_two_hundred_that_hang_leave_the_others_their_rate_and_their_latency() -> None:
    alone = simulate(quick_ones(), 4.0, 1.0)
    beside = simulate(quick_ones() + [hanging(number) for number in range(HANGING)], 4.0, 1.0)
    assert beside.held("hanging") > 100, "they have what nobody else needs"
    assert beside.served_by("quick") >= 0.97 * alone.served_by("quick")
    assert beside.lateness("quick", 0.99) <= 1.5 * alone.lateness("quick", 0.99)


def test_twenty_that_begin_to_hang_at_the_same_moment_leave_the_others_their_rate() -> None:
    seed, hang_at = random.Random(3), 1.5
    turning = [hanging(number) for number in range(HANGING)]
    for endpoint in turning:
        endpoint.takes = lambda: HANGS_SECONDS if simulation.now >= hang_at else seed.uniform(0.004, 0.012)
    simulation = Simulation(quick_ones() + turning)
    simulation.counted_from = hang_at
    simulation.run(3.5)
    assert simulation.served_by("quick") >= 0.97 * PER_ENDPOINT * QUICK * (3.5 - hang_at)
    assert simulation.lateness("quick", 0.99) <= 0.03


def test_a_new_endpoint_gets_a_slot_where_all_are_held_by_one_that_hangs() -> None:
    late_comer = quick(0, random.Random(4))
    simulation = Simulation([hanging(0), late_comer])
    simulation.run(1.0)
    assert simulation.held("hanging") == simulation.shares.capacity
    late_comer.rate = 400.0
    simulation.arrive(late_comer)
    simulation.run(4.0)
    assert simulation.served_by("quick") > 0.95 * 3 * late_comer.rate
    assert simulation.lateness("quick", 0.99) <= 0.03


def test_one_bound_by_its_slots_gets_most_of_them_beside_many_that_hang() -> None:
    """Its receiver takes 100 ms, so it is as fast as it has slots: those that hang shrink within their timeouts."""

    def busy() -> Endpoint:
        return Endpoint("busy", lambda: 0.1, has_backlog=True)

    alone = simulate([busy()], 3.0, 1.0)
    beside = simulate([busy(), *(hanging(number) for number in range(HANGING))], HANGS_SECONDS + 4.0, HANGS_SECONDS + 2)
    assert beside.served_by("busy") >= 0.8 * alone.served_by("busy")
    assert 0 < beside.held("hanging") <= beside.shares.capacity // 5


def test_an_endpoint_alone_may_hold_all_slots_also_when_it_hangs() -> None:
    simulation = simulate([hanging(0)], 1.0)
    assert simulation.held("hanging") == simulation.shares.capacity


def ranked(*priorities: int) -> list[Endpoint]:
    """Endpoints that answer quickly, each with a backlog and a priority of its own."""
    seed = random.Random(5)
    return [quick(priority, seed, has_backlog=True, priority=priority) for priority in priorities]


def test_first_starts_are_those_of_the_highest_priority() -> None:
    simulation = simulate(ranked(10, 100, 200, 250), 0.1)
    assert simulation.starts[:50].count("quick-250") >= 40


def test_backlog_of_the_highest_priority_leaves_lower_ones_an_eighth() -> None:
    simulation = simulate(ranked(10, 100, 200, 250), 3.0, 1.0)
    lower = simulation.served_by("quick") - simulation.served_by("quick-250")
    assert 0.1 <= lower / simulation.served_by("quick") <= 0.16
    assert min(simulation.served_by(f"quick-{priority}") for priority in (10, 100, 200)) > 0


def test_endpoint_of_the_highest_priority_that_hangs_leaves_others_their_slots() -> None:
    hanging_one = hanging(0)
    hanging_one.priority = 250
    simulation = simulate([hanging_one, *ranked(10, 100, 200)], HANGS_SECONDS, 1.0)
    assert simulation.held("hanging") <= simulation.shares.capacity // 4
    alone = simulate(ranked(10, 100, 200), HANGS_SECONDS, 1.0)
    assert simulation.served_by("quick") >= 0.7 * alone.served_by("quick"), "the slots that it does not hold"
