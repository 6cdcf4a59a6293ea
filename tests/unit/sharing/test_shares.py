"""The slots of a process: reserved, held and given back."""

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
    """Reserve and settle exactly so many."""
    assert shares.reserve(endpoint, len(keys)) == len(keys)
    shares.settle({endpoint: len(keys)}, [running(one, endpoint, started_at) for one in keys], started_at)


def test_who_rests_gets_no_slot_meanwhile() -> None:
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


def is_told(inbox: Inbox) -> bool:
    """Return whether the inbox has got a wake-up since this was asked last."""
    told, inbox.has_room = inbox.has_room, False
    return told and inbox.arrived.is_set()


def test_whoever_was_refused_is_told_of_room_however_it_comes() -> None:
    """Room comes back from a claim that found less than it reserved, not only from attempts that end."""
    inbox, shares = shares_with_inbox(2)
    shares.settle({"a": shares.reserve("a", 2)}, [], 0.0)
    assert not is_told(inbox), "nobody was refused"
    reserved = shares.reserve("a", 2)
    assert shares.reserve("a", 1) == 0
    shares.settle({"a": reserved}, [], 0.0)
    assert is_told(inbox)
    hold(shares, "a", key(1), key(2))
    assert shares.reserve("a", 1) == 0
    shares.remove(key(1))
    assert is_told(inbox)


def test_only_the_last_consumer_of_a_queue_is_told_of_room() -> None:
    inboxes = Inboxes()
    shares, first, last = Shares(1, inboxes), inboxes.open("http"), inboxes.open("http")
    reserved = shares.reserve("a", 1)
    assert shares.reserve("a", 1) == 0
    shares.settle({"a": reserved}, [], 0.0)
    assert (is_told(first), is_told(last)) == (False, True)


def test_who_was_refused_for_its_own_share_is_not_told_of_what_others_give_back() -> None:
    inbox, shares = shares_with_inbox(10)
    shares.want("http", ["a", "b", "c"])
    hold(shares, "a", key(1), key(2), key(3))
    hold(shares, "b", key(4))
    assert shares.reserve("a", 1) == 0
    shares.remove(key(4))
    assert not is_told(inbox)
    shares.remove(key(1))
    assert is_told(inbox)


def test_where_all_slots_are_held_everybody_is_told_of_one_that_is_given_back() -> None:
    inbox, shares = shares_with_inbox(2)
    hold(shares, "a", key(1), key(2))
    hold(shares, "b", key(3))
    assert shares.reserve("c", 1) == 0, "b has what there is for new ones"
    shares.remove(key(1))
    assert is_told(inbox)


def test_trials_of_new_ones_are_counted_as_they_begin() -> None:
    """The count of who holds what is a little old otherwise."""
    clock, names = Clock(), [f"new-{number}" for number in range(20)]
    shares = Shares(100, clock=clock)
    hold(shares, "hangs", *(key(number) for number in range(100)), started_at=clock.now)
    clock.now += 0.3
    shares.want("http", ["hangs", *names])
    assert sum(shares.reserve(name, 5) for name in names) == 6


def test_to_count_very_many_endpoints_takes_a_small_part_of_the_time() -> None:
    seconds = itertools.count(1000.0)
    shares = Shares(40, clock=lambda: next(seconds))  # one passes while they are counted
    shares.want("http", ["a"])
    for _ in range(8):
        shares.want("http", ["a", "b", "c", "d"])
    assert shares.reserve("a", 20) == 20
    shares.want("http", ["a", "b", "c", "d"])
    assert shares.reserve("b", 20) == 10


def test_an_execution_claimed_again_takes_a_slot_for_each_attempt_that_goes_on() -> None:
    """It was taken back meanwhile: the first attempt may still be waiting for its target."""
    shares = Shares(2)
    first, second = running(key(1)), running(key(2))
    for one in (first, second):
        shares.settle({"a": shares.reserve("a", 1)}, [one], time.monotonic())
    assert shares.reserve("a", 1) == 0
    assert (first.held_until, second.held_until) == (-inf, inf)
    shares.remove(key(1))
    assert (shares.reserve("a", 5), second.held_until) == (1, inf)
    shares.remove(key(2))
    assert second.held_until == -inf


def test_attempt_may_be_sent_only_while_no_other_worker_can_have_its_execution() -> None:
    shares = Shares(1, stuck_seconds=3600.0, lease=(lease := Lease(15.0, inf)))
    outcomes = SimpleNamespace(tally=AttemptCounters(Values()), spans=None)
    attempt = Attempt(running(key()).claim, SimpleNamespace(outcomes=outcomes), shares)  # type: ignore[arg-type]
    shares.settle({"a": shares.reserve("a", 1)}, [attempt], time.monotonic())
    assert not attempt.may_send(), "it was not started"
    attempt.enter(Stage.STARTED)
    assert attempt.may_send()
    lease.valid_until = time.monotonic()
    assert not attempt.may_send(), "the lease may be over"
    lease.valid_until = inf
    assert attempt.may_send()
    attempt.held_until -= 3600.0
    assert not attempt.may_send(), "it may be stuck"


def test_an_endpoint_is_quick_once_something_ended_soon_and_until_something_runs_long() -> None:
    """What is quick may take of the reserve, beside another endpoint that holds all slots."""
    clock = Clock()
    shares = Shares(8, clock=clock)
    hold(shares, "hangs", *(key(number) for number in range(8)), started_at=clock.now)
    shares.want("http", ["hangs", "a"])
    hold(shares, "a", key(10), started_at=clock.now)
    assert shares.reserve("a", 1) == 0, "one trial is enough"
    shares.remove(key(10), 0.01)
    clock.now += 0.01
    shares.want("http", ["hangs", "a"])
    hold(shares, "a", key(11), key(12), started_at=clock.now)
    shares.remove(key(11), 0.01)
    clock.now += 0.3
    shares.want("http", ["hangs", "a"])
    assert shares.reserve("a", 1) == 0, "the other one still runs"
    shares.remove(key(12), 0.3)
    clock.now += REMEMBERED_SECONDS + 1
    shares.want("http", ["hangs", "a"])
    assert shares.reserve("a", 2) == 1, "as if it were new"


def test_what_waits_for_its_instant_does_not_make_an_endpoint_slow() -> None:
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
        st.integers(1, 30),  # asked for
        st.integers(0, 30),  # found
        st.integers(0, 3),  # ends of those that run longest
        st.sampled_from([0.001, 0.05, 0.3, 2.5]),  # seconds until the next step
    ),
    max_size=60,
)


@given(st.integers(1, 40), STEPS)
def test_slots_are_counted_whatever_comes(capacity: int, steps: list[tuple[str, int, int, int, float]]) -> None:
    clock, held, number = Clock(), list[tuple[ClaimKey, float]](), 0
    shares = Shares(capacity, clock=clock)
    for endpoint, most, found, ends, seconds in steps:
        shares.want("http", "abcdefgh")
        reserved = shares.reserve(endpoint, most)
        assert sum(shares.slots.values()) <= max_claims(capacity)
        keys = [key(number + place) for place in range(min(found, reserved))]
        number += len(keys)
        shares.settle({endpoint: reserved}, [running(one, endpoint, clock.now) for one in keys], clock.now)
        held += [(one, clock.now) for one in keys]
        assert sum(shares.slots.values()) == len(shares) == len(held)
        clock.now += seconds
        for one, started_at in held[:ends]:
            shares.remove(one, clock.now - started_at)
        held = held[ends:]
    assert shares.claims() == {one for one, _ in held}
    for one, _ in held:
        shares.remove(one)
    assert shares.wait_until_empty(0.0)
    assert dict(shares.slots) == {}
