"""Slots of a worker process: reserved, held and returned."""

import itertools
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from app.kernel.metrics.values import Values
from app.queue.executions.execution_model import ClaimKey
from brokers.attempt import Attempt, Stage
from brokers.inbox import Inbox, Inboxes
from brokers.lease_heartbeat import Lease
from brokers.outcomes import AttemptCounters
from brokers.sharing.fair_shares import REMEMBERED_SECONDS, Shares
from brokers.sharing.quota import max_claims
from tests.unit.sharing.simulation import Endpoint, Running, claim_of


@dataclass(slots=True)
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def key(attempt: int = 1, execution_id: str = "exec_1") -> ClaimKey:
    return ClaimKey(execution_id, attempt, datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=attempt))


def running(its_key: ClaimKey, endpoint: str = "a", started_at: float = 0.0) -> Running:
    return Running(claim_of(its_key, Endpoint(endpoint, lambda: 0.0)), started_at)


def hold(shares: Shares, endpoint: str, *keys: ClaimKey, started_at: float = 0.0) -> None:
    """Reserve one slot per key, and settle the reservation with running attempts."""
    assert shares.reserve(endpoint, len(keys)) == len(keys)
    shares.settle({endpoint: len(keys)}, [running(claim, endpoint, started_at) for claim in keys], started_at)


def test_resting_endpoint_gets_no_slot() -> None:
    shares = Shares(10, clock=(clock := Clock()))
    shares.rest("a", 1.0)
    assert (shares.reserve("a", 1), shares.reserve("b", 1)) == (0, 1)
    clock.now += 1.0
    assert shares.reserve("a", 1) == 1


def test_reserved_slots_count_until_they_are_settled() -> None:
    shares = Shares(10)
    assert shares.reserve("a", 7) == 7
    assert shares.reserve("a", 7) == 3
    assert shares.reserve("a", 1) == 0
    shares.settle({"a": 7}, [], 0.0)
    assert shares.reserve("a", 100) == 7


def shares_with_inbox(capacity: int) -> tuple[Inbox, Shares]:
    inboxes = Inboxes()
    return inboxes.open("http"), Shares(capacity, inboxes, clock=Clock())


def takes_wakeup(inbox: Inbox) -> bool:
    """Return whether the inbox was woken since the last call, and reset it."""
    has_room, inbox.has_room = inbox.has_room, False
    return has_room and inbox.arrived.is_set()


def test_refused_consumer_is_woken_by_any_free_slot() -> None:
    """Slots also come back from a claim that found less than it reserved."""
    inbox, shares = shares_with_inbox(2)
    shares.settle({"a": shares.reserve("a", 2)}, [], 0.0)
    assert not takes_wakeup(inbox), "no reservation was refused"
    reserved = shares.reserve("a", 2)
    assert shares.reserve("a", 1) == 0
    shares.settle({"a": reserved}, [], 0.0)
    assert takes_wakeup(inbox)
    hold(shares, "a", key(1), key(2))
    assert shares.reserve("a", 1) == 0
    shares.remove(key(1))
    assert takes_wakeup(inbox)


def test_only_the_last_consumer_of_a_queue_is_woken() -> None:
    inboxes = Inboxes()
    shares, first, last = Shares(1, inboxes), inboxes.open("http"), inboxes.open("http")
    reserved = shares.reserve("a", 1)
    assert shares.reserve("a", 1) == 0
    shares.settle({"a": reserved}, [], 0.0)
    assert (takes_wakeup(first), takes_wakeup(last)) == (False, True)


def test_consumer_refused_for_its_own_share_is_not_woken_by_slots_of_other_endpoints() -> None:
    inbox, shares = shares_with_inbox(10)
    shares.want("http", ["a", "b", "c"])
    hold(shares, "a", key(1), key(2), key(3))
    hold(shares, "b", key(4))
    assert shares.reserve("a", 1) == 0
    shares.remove(key(4))
    assert not takes_wakeup(inbox)
    shares.remove(key(1))
    assert takes_wakeup(inbox)


def test_returned_slot_wakes_every_refused_consumer_when_all_slots_were_held() -> None:
    inbox, shares = shares_with_inbox(2)
    hold(shares, "a", key(1), key(2))
    hold(shares, "b", key(3))
    assert shares.reserve("c", 1) == 0, "b holds the slot for new endpoints"
    shares.remove(key(1))
    assert takes_wakeup(inbox)


def test_trials_of_new_endpoints_are_counted_as_they_begin() -> None:
    """The other counts of held slots are cached and may be slightly old."""
    clock, names = Clock(), [f"new-{number}" for number in range(20)]
    shares = Shares(100, clock=clock)
    hold(shares, "hangs", *(key(number) for number in range(100)), started_at=clock.now)
    clock.now += 0.3
    shares.want("http", ["hangs", *names])
    assert sum(shares.reserve(name, 5) for name in names) == 6


def test_recount_of_very_many_endpoints_is_delayed_to_limit_its_cost() -> None:
    seconds = itertools.count(1000.0)
    shares = Shares(40, clock=lambda: next(seconds))  # each count takes a second of this clock
    shares.want("http", ["a"])
    for _ in range(8):
        shares.want("http", ["a", "b", "c", "d"])
    assert shares.reserve("a", 20) == 20
    shares.want("http", ["a", "b", "c", "d"])
    assert shares.reserve("b", 20) == 10


def test_reclaimed_execution_holds_a_slot_for_each_running_attempt() -> None:
    """A scheduler reclaimed the execution; its first attempt may still wait for its target."""
    shares = Shares(2)
    first, second = running(key(1)), running(key(2))
    for attempt in (first, second):
        shares.settle({"a": shares.reserve("a", 1)}, [attempt], time.monotonic())
    assert shares.reserve("a", 1) == 0
    assert (first.held_until, second.held_until) == (-inf, inf)
    shares.remove(key(1))
    assert (shares.reserve("a", 5), second.held_until) == (1, inf)
    shares.remove(key(2))
    assert second.held_until == -inf


def test_attempt_may_be_sent_only_while_no_other_worker_can_have_its_execution() -> None:
    shares = Shares(1, stuck_seconds=3600.0, lease=(lease := Lease(15.0, inf)))
    outcomes = SimpleNamespace(counters=AttemptCounters(Values()), spans=None)
    attempt = Attempt(running(key()).claim, SimpleNamespace(outcomes=outcomes), shares)  # type: ignore[arg-type]
    shares.settle({"a": shares.reserve("a", 1)}, [attempt], time.monotonic())
    assert not attempt.may_send(), "the attempt has not started"
    attempt.enter(Stage.STARTED)
    assert attempt.may_send()
    lease.valid_until = time.monotonic()
    assert not attempt.may_send(), "the lease may have expired"
    lease.valid_until = inf
    assert attempt.may_send()
    attempt.held_until -= 3600.0
    assert not attempt.may_send(), "the attempt may be stuck"


def test_endpoint_is_quick_from_its_first_quick_end_until_an_attempt_runs_long() -> None:
    """Quick endpoints may take slots of the reserve while another endpoint holds all normal slots."""
    clock = Clock()
    shares = Shares(8, clock=clock)
    hold(shares, "hangs", *(key(number) for number in range(8)), started_at=clock.now)
    shares.want("http", ["hangs", "a"])
    hold(shares, "a", key(10), started_at=clock.now)
    assert shares.reserve("a", 1) == 0, "a new endpoint gets one trial only"
    shares.remove(key(10), 0.01)
    clock.now += 0.01
    shares.want("http", ["hangs", "a"])
    hold(shares, "a", key(11), key(12), started_at=clock.now)
    shares.remove(key(11), 0.01)
    clock.now += 0.3
    shares.want("http", ["hangs", "a"])
    assert shares.reserve("a", 1) == 0, "the long attempt still runs"
    shares.remove(key(12), 0.3)
    clock.now += REMEMBERED_SECONDS + 1
    shares.want("http", ["hangs", "a"])
    assert shares.reserve("a", 2) == 1, "an idle endpoint counts as new again"


def test_attempt_that_waits_for_its_due_time_does_not_make_an_endpoint_slow() -> None:
    clock = Clock()
    shares = Shares(4, clock=clock)
    hold(shares, "a", key(1), started_at=clock.now)
    shares.remove(key(1), 0.01)
    hold(shares, "a", key(2))
    clock.now += 5.0
    shares.want("http", ["a", "b", "c", "d"])
    assert shares.reserve("a", 3) == 3


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abcdefgh"),  # endpoint
        st.integers(1, 30),  # reserved
        st.integers(0, 30),  # found
        st.integers(0, 3),  # ended attempts, oldest first
        st.sampled_from([0.001, 0.05, 0.3, 2.5]),  # seconds until the next step
    ),
    max_size=60,
)


@given(st.integers(1, 40), STEPS)
def test_slots_are_counted_correctly_in_any_sequence(
    capacity: int, steps: list[tuple[str, int, int, int, float]]
) -> None:
    clock, held, number = Clock(), list[tuple[ClaimKey, float]](), 0
    shares = Shares(capacity, clock=clock)
    for endpoint, most, found, ends, seconds in steps:
        shares.want("http", "abcdefgh")
        reserved = shares.reserve(endpoint, most)
        assert sum(shares.slots.values()) <= max_claims(capacity)
        keys = [key(number + place) for place in range(min(found, reserved))]
        number += len(keys)
        shares.settle({endpoint: reserved}, [running(claim, endpoint, clock.now) for claim in keys], clock.now)
        held += [(claim, clock.now) for claim in keys]
        assert sum(shares.slots.values()) == len(shares) == len(held)
        clock.now += seconds
        for claim, started_at in held[:ends]:
            shares.remove(claim, clock.now - started_at)
        held = held[ends:]
    assert shares.claims() == {claim for claim, _ in held}
    for claim, _ in held:
        shares.remove(claim)
    assert shares.wait_until_empty(0.0)
    assert dict(shares.slots) == {}
