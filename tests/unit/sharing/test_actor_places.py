"""Places of the processes with actors: how many executions of an actor may be claimed."""

from math import inf

from app.queue.claiming.admission import OPEN
from app.queue.claiming.partition import Partition
from brokers.sharing.actor_places import ASK_SECONDS, GATHER_SECONDS, ActorAdmission, ActorPlaces, ActorProcesses
from brokers.sharing.fair_shares import Shares


def process(*endpoints: str, total: int = 4, places: int = 8) -> ActorPlaces:
    return ActorPlaces(endpoints=dict.fromkeys(endpoints, "default"), total=total, by_queue={"default": places})


def partition(endpoint: str, key: str = "") -> Partition:
    return Partition(0, endpoint, key, 128)


def test_room_is_the_least_of_threads_and_places_of_the_queue() -> None:
    processes = ActorProcesses()
    processes.add(process("mail", total=4, places=8))
    processes.add(process("mail", total=9, places=2))
    assert processes.room("mail", {}) == 4 + 2
    assert processes.room("other", {}) is None


def test_claims_on_their_way_and_messages_in_a_process_take_places_once() -> None:
    processes, places = ActorProcesses(), process("mail", "print")
    processes.add(places)
    assert processes.room("mail", {"mail": 2, "print": 1}) == 1
    for _ in range(2):
        places.take("default")
        processes.assigned["mail"] += 1
    assert processes.room("mail", {"mail": 2, "print": 1}) == 1
    places.give_back("default")
    processes.assigned["mail"] -= 1
    assert processes.room("mail", {"mail": 1, "print": 1}) == 2


def test_endpoint_without_a_process_is_closed_until_one_connects() -> None:
    processes = ActorProcesses()
    rule = ActorAdmission(processes, Shares(100), is_actor_queue=True)
    assert rule.room(partition("mail"), 5.0) == (0, 5.0 + ASK_SECONDS, True)
    assert not rule.begin(5.1).endpoints
    processes.add(process("other"))
    assert not rule.begin(5.2).endpoints
    processes.add(process("mail"))
    assert set(rule.begin(5.3).endpoints) == {"mail"}
    assert rule.room(partition("mail"), 5.3) == (4, -inf, False)


def test_full_process_closes_nothing_because_the_next_free_slot_asks_again() -> None:
    processes, places = ActorProcesses(), process("mail", total=4, places=4)
    places.enough = 0
    processes.add(places)
    for _ in range(4):
        places.take("default")
    rule = ActorAdmission(processes, Shares(100), is_actor_queue=True)
    assert rule.room(partition("mail"), 5.0) == (0, -inf, False)


def test_claim_waits_for_several_places_while_all_processes_have_work_in_advance() -> None:
    """A claim of one message costs nearly as much as a claim of fifty."""
    processes, shares = ActorProcesses(), Shares(1000)
    busy, other = (process("mail", total=64, places=64) for _ in range(2))
    rule = ActorAdmission(processes, shares, is_actor_queue=True)
    for each in (busy, other):
        each.enough = 8
        processes.add(each)
        for _ in range(60):
            each.take("default")
            processes.assigned["mail"] += 1
    claimed = {"mail": 120}
    assert processes.room("mail", claimed) == 8
    assert processes.can_wait("mail", 8, shares.free(), 1000)
    for passed in (0.0, 0.04):
        assert rule.room(partition("mail"), 5.0 + passed) == (0, 5.0 + passed + GATHER_SECONDS, True)
    assert rule.room(partition("mail"), 5.06) == (8, -inf, False), "a message of a high priority waits no longer"
    assert rule.room(partition("mail", "key"), 5.06) == (8, -inf, False), "another partition of the same claim"
    assert rule.room(partition("mail"), 5.07).slots == 0
    assert not processes.can_wait("mail", 32, 1000, 1000)
    assert processes.can_wait("mail", 32, 249, 1000)  # few slots of the worker are free
    for _ in range(52):
        other.give_back("default")
    assert not processes.can_wait("mail", 1, 1000, 1000)  # one of them has work for its threads only


def test_other_queues_leave_endpoints_of_other_types_open() -> None:
    rule = ActorAdmission(ActorProcesses(), Shares(100), is_actor_queue=False)
    assert rule.room(partition("hook"), 5.0) is OPEN
