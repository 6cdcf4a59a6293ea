"""Partitions and shares together in simulated time: hanging endpoints leave other endpoints their capacity."""

import random
from collections.abc import Iterable

from brokers.sharing.quota import max_claims
from tests.unit.sharing.simulation import HANGS_SECONDS, Endpoint, Simulation, hanging, quick

PER_ENDPOINT = 7.5  # executions a second
QUICK = 180
HANGING = 20


def quick_endpoints(*, rate: float = PER_ENDPOINT) -> list[Endpoint]:
    seed = random.Random(2)
    return [quick(number, seed, rate=rate) for number in range(QUICK)]


def simulate(endpoints: Iterable[Endpoint], until: float, counted_from: float = 0.0) -> Simulation:
    simulation = Simulation(endpoints)
    simulation.counted_from = counted_from
    simulation.run(until)
    assert simulation.most_held <= max_claims(simulation.shares.capacity)
    return simulation


def test_twenty_hanging_endpoints_of_two_hundred_leave_the_rest_their_rate_and_latency() -> None:
    alone = simulate(quick_endpoints(), 4.0, 1.0)
    beside = simulate(quick_endpoints() + [hanging(number) for number in range(HANGING)], 4.0, 1.0)
    assert beside.held("hanging") > 100, "hanging endpoints may hold the slots that no other endpoint needs"
    assert beside.served_by("quick") >= 0.97 * alone.served_by("quick")
    assert beside.lateness("quick", 0.99) <= 1.5 * alone.lateness("quick", 0.99)


def test_twenty_endpoints_that_start_to_hang_together_leave_the_rest_their_rate() -> None:
    seed, hang_at = random.Random(3), 1.5
    turning = [hanging(number) for number in range(HANGING)]
    for endpoint in turning:
        endpoint.takes = lambda: HANGS_SECONDS if simulation.now >= hang_at else seed.uniform(0.004, 0.012)
    simulation = Simulation(quick_endpoints() + turning)
    simulation.counted_from = hang_at
    simulation.run(3.5)
    assert simulation.served_by("quick") >= 0.97 * PER_ENDPOINT * QUICK * (3.5 - hang_at)
    assert simulation.lateness("quick", 0.99) <= 0.03


def test_new_endpoint_gets_a_slot_when_a_hanging_endpoint_holds_all() -> None:
    late_comer = quick(0, random.Random(4))
    simulation = Simulation([hanging(0), late_comer])
    simulation.run(1.0)
    assert simulation.held("hanging") == simulation.shares.capacity
    late_comer.rate = 400.0
    simulation.arrive(late_comer)
    simulation.run(4.0)
    assert simulation.served_by("quick") > 0.95 * 3 * late_comer.rate
    assert simulation.lateness("quick", 0.99) <= 0.03


def test_endpoint_limited_by_its_slots_gets_most_of_them_beside_many_hanging_endpoints() -> None:
    """The receiver takes 100 ms, so the rate depends on the slots. Hanging endpoints shrink within their timeouts."""

    def busy() -> Endpoint:
        return Endpoint("busy", lambda: 0.1, has_backlog=True)

    alone = simulate([busy()], 3.0, 1.0)
    beside = simulate([busy(), *(hanging(number) for number in range(HANGING))], HANGS_SECONDS + 4.0, HANGS_SECONDS + 2)
    assert beside.served_by("busy") >= 0.8 * alone.served_by("busy")
    assert 0 < beside.held("hanging") <= beside.shares.capacity // 5


def test_hanging_endpoint_alone_may_hold_all_slots() -> None:
    simulation = simulate([hanging(0)], 1.0)
    assert simulation.held("hanging") == simulation.shares.capacity


def ranked(*priorities: int) -> list[Endpoint]:
    """Return quick endpoints, each with a backlog and its own priority."""
    seed = random.Random(5)
    return [quick(priority, seed, has_backlog=True, priority=priority) for priority in priorities]


def test_first_starts_have_the_highest_priority() -> None:
    simulation = simulate(ranked(10, 100, 200, 250), 0.1)
    assert simulation.starts[:50].count("quick-250") >= 40


def test_backlog_of_the_highest_priority_leaves_an_eighth_to_lower_priorities() -> None:
    simulation = simulate(ranked(10, 100, 200, 250), 3.0, 1.0)
    lower = simulation.served_by("quick") - simulation.served_by("quick-250")
    assert 0.1 <= lower / simulation.served_by("quick") <= 0.16
    assert min(simulation.served_by(f"quick-{priority}") for priority in (10, 100, 200)) > 0


def test_hanging_endpoint_of_the_highest_priority_leaves_slots_to_other_endpoints() -> None:
    hanging_one = hanging(0)
    hanging_one.priority = 250
    simulation = simulate([hanging_one, *ranked(10, 100, 200)], 5.0, 1.0)
    assert simulation.held("hanging") <= simulation.shares.capacity // 4
    alone = simulate(ranked(10, 100, 200), 5.0, 1.0)
    assert simulation.served_by("quick") >= 0.7 * alone.served_by("quick"), "the slots that it does not hold"
