"""How many more slots an endpoint may take: for every crowd."""

from hypothesis import given
from hypothesis import strategies as st

from brokers.sharing.quota import Crowd, Pace, allowance, pace, reserve

PACES = st.sampled_from(Pace)


@st.composite
def crowds(draw: st.DrawFn) -> tuple[Crowd, int]:
    """Any crowd, and what one endpoint of it holds."""
    capacity = draw(st.integers(1, 400))
    in_flight = draw(st.integers(0, capacity + reserve(capacity)))
    own = draw(st.integers(0, in_flight))
    others = draw(st.integers(0, in_flight))
    crowd = Crowd(
        capacity,
        reserve(capacity),
        in_flight,
        draw(st.integers(1, 300)),
        draw(st.integers(0, 300)),
        others,
        draw(st.integers(0, others)),
        draw(st.booleans()),
    )
    return crowd, own


@given(crowds(), PACES)
def test_never_more_than_slots_and_reserve_and_never_one_endpoint_more_than_the_slots(
    case: tuple[Crowd, int], its_pace: Pace
) -> None:
    crowd, own = case
    more = allowance(crowd, its_pace, own)
    assert 0 <= more <= crowd.capacity + reserve(crowd.capacity) - crowd.in_flight
    assert not more or own + more <= crowd.capacity


@given(crowds(), st.sampled_from([Pace.MIDDLING, Pace.SLOW]))
def test_who_is_not_quick_never_takes_of_the_reserve(case: tuple[Crowd, int], its_pace: Pace) -> None:
    crowd, own = case
    assert allowance(crowd, its_pace, own) <= max(0, crowd.capacity - crowd.in_flight)


@given(crowds(), st.sampled_from([Pace.NEW, Pace.MIDDLING, Pace.SLOW]))
def test_who_is_not_quick_has_an_even_share(case: tuple[Crowd, int], its_pace: Pace) -> None:
    crowd, own = case
    more = allowance(crowd, its_pace, own)
    assert not more or own + more <= max(1, crowd.capacity // crowd.claimants)


@given(crowds())
def test_a_new_one_takes_at_most_one_of_the_reserve_and_such_trials_hold_little_of_it(case: tuple[Crowd, int]) -> None:
    crowd, own = case
    more = allowance(crowd, Pace.NEW, own)
    if more > max(0, crowd.capacity - crowd.in_flight):
        assert (more, own) == (1, 0)
        assert crowd.held_by_others - crowd.capacity < max(1, reserve(crowd.capacity) // 4)


@given(crowds())
def test_a_quick_one_without_a_slot_gets_one_while_any_is_free(case: tuple[Crowd, int]) -> None:
    crowd, _ = case
    is_free = crowd.in_flight < crowd.capacity + reserve(crowd.capacity)
    assert (allowance(crowd, Pace.QUICK, 0) > 0) is is_free


@given(st.integers(1, 400), PACES)
def test_one_alone_may_hold_all_slots(capacity: int, its_pace: Pace) -> None:
    held = 0
    while held < capacity:
        others = 0 if its_pace is Pace.QUICK else held
        slow = held if its_pace is Pace.SLOW else 0
        crowd = Crowd(
            capacity,
            reserve(capacity),
            held,
            1,
            int(its_pace is Pace.QUICK),
            others,
            slow,
            its_pace in {Pace.QUICK, Pace.MIDDLING},
        )
        more = allowance(crowd, its_pace, held)
        assert more > 0
        held += more
    assert held == capacity


@given(crowds())
def test_slow_ones_together_keep_to_a_fifth_where_others_that_answer_want_slots(case: tuple[Crowd, int]) -> None:
    crowd, own = case
    more = allowance(crowd._replace(is_answering=True), Pace.SLOW, own)
    assert not more or crowd.held_by_slow + more <= max(1, crowd.capacity // 5)


def test_the_pace_is_that_of_the_last_end_or_of_what_runs_longer() -> None:
    now = 1000.0
    assert pace(None, 0.0, now) is Pace.NEW
    assert pace(None, now - 0.3, now) is Pace.MIDDLING
    assert pace(0.2, now - 0.1, now) is Pace.QUICK
    assert pace(0.3, now - 0.1, now) is Pace.MIDDLING
    assert pace(0.1, now - 2.1, now) is Pace.SLOW
    assert pace(3.0, 0.0, now) is Pace.SLOW
