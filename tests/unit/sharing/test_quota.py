"""Quota: number of further slots for an endpoint under any load."""

from hypothesis import given
from hypothesis import strategies as st

from brokers.sharing.quota import Latency, Load, latency, quota, reserve

LATENCIES = st.sampled_from(Latency)


@st.composite
def loads(draw: st.DrawFn) -> tuple[Load, int]:
    """Draw a load, and how many slots an endpoint holds in it."""
    capacity = draw(st.integers(1, 400))
    in_flight = draw(st.integers(0, capacity + reserve(capacity)))
    own = draw(st.integers(0, in_flight))
    others = draw(st.integers(0, in_flight))
    load = Load(
        capacity,
        reserve(capacity),
        in_flight,
        draw(st.integers(1, 300)),
        draw(st.integers(0, 300)),
        others,
        draw(st.integers(0, others)),
        draw(st.booleans()),
    )
    return load, own


@given(loads(), LATENCIES)
def test_quota_never_exceeds_the_free_slots_and_no_endpoint_holds_more_than_the_capacity(
    case: tuple[Load, int], its_latency: Latency
) -> None:
    load, own = case
    more = quota(load, its_latency, own)
    assert 0 <= more <= load.capacity + reserve(load.capacity) - load.in_flight
    assert not more or own + more <= load.capacity


@given(loads(), st.sampled_from([Latency.MEDIUM, Latency.SLOW]))
def test_endpoint_that_is_not_quick_never_takes_from_the_reserve(case: tuple[Load, int], its_latency: Latency) -> None:
    load, own = case
    assert quota(load, its_latency, own) <= max(0, load.capacity - load.in_flight)


@given(loads(), st.sampled_from([Latency.NEW, Latency.MEDIUM, Latency.SLOW]))
def test_endpoint_that_is_not_quick_has_an_even_share(case: tuple[Load, int], its_latency: Latency) -> None:
    load, own = case
    more = quota(load, its_latency, own)
    assert not more or own + more <= max(1, load.capacity // load.claimants)


@given(loads())
def test_new_endpoint_takes_at_most_one_slot_of_the_reserve_and_trials_hold_a_quarter(case: tuple[Load, int]) -> None:
    load, own = case
    more = quota(load, Latency.NEW, own)
    if more > max(0, load.capacity - load.in_flight):
        assert (more, own) == (1, 0)
        assert load.held_by_others - load.capacity < max(1, reserve(load.capacity) // 4)


@given(loads())
def test_quick_endpoint_without_a_slot_gets_a_free_slot(case: tuple[Load, int]) -> None:
    load, _ = case
    is_free = load.in_flight < load.capacity + reserve(load.capacity)
    assert (quota(load, Latency.QUICK, 0) > 0) is is_free


@given(st.integers(1, 400), LATENCIES)
def test_endpoint_alone_may_hold_all_slots(capacity: int, its_latency: Latency) -> None:
    held = 0
    while held < capacity:
        others = 0 if its_latency is Latency.QUICK else held
        slow = held if its_latency is Latency.SLOW else 0
        load = Load(
            capacity,
            reserve(capacity),
            held,
            1,
            int(its_latency is Latency.QUICK),
            others,
            slow,
            its_latency in {Latency.QUICK, Latency.MEDIUM},
        )
        more = quota(load, its_latency, held)
        assert more > 0
        held += more
    assert held == capacity


@given(loads())
def test_slow_endpoints_together_get_a_fifth_while_answering_endpoints_want_slots(case: tuple[Load, int]) -> None:
    load, own = case
    more = quota(load._replace(is_answering=True), Latency.SLOW, own)
    assert not more or load.held_by_slow + more <= max(1, load.capacity // 5)


def test_latency_class_follows_the_last_end_or_a_longer_running_attempt() -> None:
    now = 1000.0
    assert latency(None, 0.0, now) is Latency.NEW
    assert latency(None, now - 0.3, now) is Latency.MEDIUM
    assert latency(0.2, now - 0.1, now) is Latency.QUICK
    assert latency(0.3, now - 0.1, now) is Latency.MEDIUM
    assert latency(0.1, now - 2.1, now) is Latency.SLOW
    assert latency(3.0, 0.0, now) is Latency.SLOW
