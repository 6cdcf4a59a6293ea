"""The lanes of a queue: when each is picked, for how much, and from where on it is read."""

import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.executions.claiming.lane import Lane, Wanted
from app.executions.low_water import SLACK
from app.formats import EPOCH
from brokers.sharing import lanes as lanes_module
from brokers.sharing.lanes import FIRST_APPETITE, MOST_PER_CLAIM, REFUSED_SECONDS, Lanes
from brokers.sharing.ready import ONE_IN

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AHEAD = 0.05


def lane(endpoint: str = "a", *, key: str = "", priority: int = 128, shard: int = 0) -> Lane:
    return Lane(shard, endpoint, key, priority)


def known(*lanes: Lane) -> Lanes:
    """Return lanes that have something due at 0.0."""
    found = Lanes(1, ahead=AHEAD)
    for one in lanes:
        found.noticed(one, 0.0)
    return found


def everything(_lane: Lane, most: int) -> int:
    return most


def at(seconds: float) -> datetime:
    """Return the database's clock at an instant of ours."""
    return NOW + timedelta(seconds=seconds)


def answer(lanes: Lanes, wanted: Sequence[Wanted], now: float, *counts: int) -> None:
    """Take in that so many were found of each lane, all that were wanted by default."""
    found = dict.fromkeys((one.lane for one in wanted), (MOST_PER_CLAIM, at(now)))
    found.update((one.lane, (count, at(now))) for one, count in zip(wanted, counts, strict=False))
    lanes.claimed(wanted, found, at(now), now)


def picked(lanes: Lanes, now: float, arms: int = 16) -> list[Lane]:
    return [one.lane for one in lanes.pick(now, everything, arms)]


def test_a_lane_is_picked_shortly_before_its_instant_and_forgotten_once_it_is_drained() -> None:
    lanes = Lanes(1, ahead=AHEAD)
    lanes.looked([(lane(), at(0.2))], at(0.0), 0.0)
    assert picked(lanes, 0.0) == []
    assert 0.14 < lanes.next_at() < 0.16
    (wanted,) = lanes.pick(0.16, everything)
    assert (wanted.lane, wanted.quota) == (lane(), FIRST_APPETITE)
    answer(lanes, [wanted], 0.16, 1)
    assert (len(lanes), lanes.next_at()) == (0, inf)


def test_each_instant_of_a_lane_is_kept_until_it_was_read_so_far() -> None:
    """A look every 50 ms finds the same rows again."""
    lanes = Lanes(1, ahead=AHEAD)
    for _ in range(3):
        due = [(lane(), at(seconds)) for seconds in (-1.0, 0.04, 0.3, 0.5)]
        lanes.looked(due, at(0.0), 0.0)
    answer(lanes, lanes.pick(0.0, everything), 0.0, 2)
    assert 0.24 < lanes.next_at() < 0.26, "what was due by then was claimed"
    wanted = lanes.pick(0.25, everything)
    answer(lanes, wanted, 0.46, 2)
    assert len(lanes) == 0, "it took so long that it has reached the last one"


def test_a_full_lane_is_read_on_from_where_it_was_seen_and_for_more() -> None:
    lanes = known(lane())
    for quota in (25, 50, 100, 200, 200):
        (wanted,) = lanes.pick(0.0, everything)
        assert wanted.quota == quota
        lanes.claimed([wanted], {lane(): (quota, at(-60.0))}, at(0.0), 0.0)
    (wanted,) = lanes.pick(0.0, everything)
    assert wanted.since == at(-60.0)
    lanes.claimed([wanted], {lane(): (wanted.quota, at(-1.0))}, at(0.0), 0.0)
    (wanted,) = lanes.pick(0.0, everything)
    assert wanted.since == at(0.0) - SLACK, "what is being committed may lie behind what was seen"


def test_what_a_sweep_finds_behind_a_mark_sets_the_mark_back() -> None:
    lanes = Lanes(1, ahead=AHEAD)
    lanes.looked([(lane(), at(-1.0))], at(0.0), 0.0)
    (wanted,) = lanes.pick(0.0, everything)
    assert wanted.since == at(0.0) - SLACK
    answer(lanes, [wanted], 0.0)
    lanes.swept([(lane(), at(-600.0))], at(0.0), 0.0)
    assert [one.since for one in lanes.pick(0.0, everything)] == [at(-600.0)]


def test_a_lane_that_was_only_hinted_at_is_read_from_the_beginning_until_a_clock_is_known() -> None:
    lanes = known(lane("a"))
    assert [one.since for one in lanes.pick(0.0, everything)] == [EPOCH]
    lanes.looked([], at(9.0), 9.0)
    lanes.noticed(lane("b"), 9.0)
    assert {one.lane.endpoint: one.since for one in lanes.pick(9.0, everything)}["b"] == at(9.0) - SLACK


def test_a_look_begins_shortly_before_the_last_one_also_when_the_clock_was_set_back() -> None:
    lanes = Lanes(2, ahead=AHEAD)
    assert lanes.since() == [EPOCH, EPOCH]
    lanes.looked([], at(0.0), 0.0)
    assert lanes.since() == [at(0.0) - SLACK] * 2
    lanes.looked([], at(-60.0), 1.0)
    assert lanes.since() == [at(-60.0) - SLACK] * 2
    lanes.extend(3)
    assert lanes.since()[2:] == [EPOCH]


def test_higher_priorities_come_first_and_what_they_leave_is_the_others() -> None:
    lanes = known(lane("a", priority=10), lane("b", priority=200), lane("c", priority=200), lane("a", priority=0))
    assert [one.priority for one in picked(lanes, 0.0)] == [200, 200, 10, 0]
    assert [one.priority for one in picked(lanes, 0.0, arms=2)] == [200, 200]


@given(st.lists(st.integers(1, 40), min_size=200, max_size=200), st.integers(1, 5))
def test_lower_priorities_get_one_of_eight_rows(rooms: list[int], low: int) -> None:
    """The work never ends, and there is room for some rows at a time."""
    lanes = known(lane("high", priority=200), *(lane(f"low-{number}", priority=number) for number in range(low)))
    claimed: Counter[str] = Counter()
    for room in rooms:
        wanted = lanes.pick(0.0, everything, most=room)
        assert sum(one.quota for one in wanted) <= room
        claimed.update({one.lane.endpoint: one.quota for one in wanted})
        lanes.claimed(wanted, {one.lane: (one.quota, at(0.0)) for one in wanted}, at(0.0), 0.0)
    rows = claimed.total()
    assert abs(rows - claimed["high"] - rows / ONE_IN) <= max(rooms) + 1
    assert all(claimed[f"low-{number}"] >= rows / ONE_IN / low - 2 * max(rooms) for number in range(low))


def test_rows_of_the_highest_priority_count_only_while_others_wait() -> None:
    lanes = known(lane("high", priority=200), lane("low", priority=1))
    answer(lanes, lanes.pick(0.0, everything, most=30), 0.0, 25, 0)
    for _ in range(20):
        answer(lanes, lanes.pick(0.0, everything), 0.0)
    lanes.noticed(lane("low", priority=1), 0.0)
    assert [one.lane.endpoint for one in lanes.pick(0.0, everything, most=1)] == ["high"]


@given(st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 6), min_size=1), st.integers(1, 16))
def test_endpoints_take_turns_and_so_do_the_keys_of_each(keys: dict[str, int], arms: int) -> None:
    """Whoever has many keys is served no more often than the others, and no key more often than another."""
    lanes = known(*(lane(endpoint, key=f"={number}") for endpoint, count in keys.items() for number in range(count)))
    served: Counter[Lane] = Counter()
    for _ in range(60):
        wanted = lanes.pick(0.0, everything, arms)
        assert len({one.lane for one in wanted}) == len(wanted) == min(arms, sum(keys.values()))
        of_each = Counter(one.lane.endpoint for one in wanted)
        assert all(of_each[name] in (most, most - 1, keys[name]) for most in [max(of_each.values())] for name in keys)
        served.update(one.lane for one in wanted)
        answer(lanes, wanted, 0.0)
    for endpoint, count in keys.items():
        times = [served[lane(endpoint, key=f"={number}")] for number in range(count)]
        assert max(times) - min(times) <= 1


def test_whoever_was_served_longest_ago_comes_first_also_when_it_had_nothing_meanwhile() -> None:
    lanes = known(lane("busy"))
    answer(lanes, lanes.pick(0.0, everything, 1), 0.0)
    lanes.noticed(lane("new"), 0.0)
    wanted = lanes.pick(0.0, everything, 1)
    assert [one.lane.endpoint for one in wanted] == ["new"]
    answer(lanes, wanted, 0.0, 0)
    lanes.noticed(lane("new"), 0.0)
    assert picked(lanes, 0.0, 1) == [lane("busy")]
    assert picked(lanes, 0.0, 1) == [lane("new")]


def test_what_is_there_for_a_claim_is_divided_between_its_lanes_and_what_one_leaves_is_the_others() -> None:
    lanes = known(*(lane(name) for name in "abcdefghij"))
    assert [one.quota for one in lanes.pick(0.0, everything)] == [20] * 10
    room = Counter(dict.fromkeys("abc", 100) | dict.fromkeys("defghij", 1))

    def take(one: Lane, most: int) -> int:
        got = min(most, room[one.endpoint])
        room[one.endpoint] -= got
        return got

    few = lanes.pick(0.0, take)
    assert {one.lane.endpoint: one.quota for one in few} == dict.fromkeys("abc", 25) | dict.fromkeys("defghij", 1)


def test_a_lane_alone_without_room_is_not_wanted() -> None:
    lanes = known(lane())
    assert lanes.pick(0.0, lambda _lane, _most: 0) == []
    assert lanes.next_at() == REFUSED_SECONDS


def test_an_endpoint_without_room_is_asked_once_and_again_a_little_later() -> None:
    lanes = known(*(lane("a", key=f"={number}", priority=number % 2) for number in range(50)))
    asked = []
    assert lanes.pick(0.0, lambda one, _most: asked.append(one) or 0) == []  # type: ignore[func-returns-value]
    assert len(asked) == 1
    assert lanes.next_at() == REFUSED_SECONDS
    assert picked(lanes, 0.0)[0] != asked[0], "the room may have been that of the key"


def test_a_shut_endpoint_is_left_alone_until_its_instant_and_opens_at_once_when_it_is_told() -> None:
    lanes = known(lane("a"), lane("b"))
    lanes.shut("a", 3.0)
    assert (list(lanes.wanting(0.0)), picked(lanes, 0.0)) == (["b"], [lane("b")])
    answer(lanes, lanes.pick(0.0, everything), 0.0, 0)
    lanes.noticed(lane("a", key="=1"), 1.0)
    assert picked(lanes, 1.0) == []
    assert lanes.next_at() == 3.0
    assert set(picked(lanes, 3.0)) == {lane("a"), lane("a", key="=1")}
    lanes.shut("a", inf)
    assert (list(lanes.wanting(4.0)), picked(lanes, 4.0), lanes.next_at()) == ([], [], inf)
    lanes.shut("a", 0.0)
    assert len(picked(lanes, 4.0)) == 2
    assert list(lanes.wanting(4.0)) == ["a"]


def test_a_lane_that_rests_is_picked_again_at_its_instant_whatever_is_found_of_it_meanwhile() -> None:
    lanes = known(lane(key="=1"), lane(key="=2"))
    wanted = lanes.pick(0.0, everything)
    answer(lanes, wanted, 0.0, 0, 25)
    lanes.rest(lane(key="=1"), 2.0, at(-100.0))
    lanes.rest(lane(key="=2"), 1.0)
    lanes.noticed(lane(key="=1"), 0.5)
    lanes.looked([(lane(key="=2"), at(0.1))], at(0.5), 0.5)
    assert picked(lanes, 0.9) == []
    assert lanes.next_at() == 1.0
    assert picked(lanes, 1.0) == [lane(key="=2")]
    assert {one.lane.limit_key: one.since for one in lanes.pick(2.0, everything)}["=1"] == at(-100.0)


def test_of_an_endpoint_with_very_many_keys_so_many_are_known_of_and_all_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others are found by the next sweep: what a worker remembers is bounded."""
    monkeypatch.setattr(lanes_module, "MOST_LANES", 5)
    many = [lane("a", key=f"={number}") for number in range(9)]
    lanes = Lanes(1, ahead=AHEAD)
    for _ in range(2):
        for one in (*many, lane("b")):
            lanes.swept([(one, at(-60.0))], at(0.0), 0.0)
            lanes.wanting(0.0)
    assert len(lanes) == 6
    assert set(picked(lanes, 0.0)) == {*many[:5], lane("b")}
    answer(lanes, lanes.pick(0.0, everything), 0.0, *[0] * 6)
    lanes.swept([(one, at(-60.0)) for one in many[5:]], at(0.0), 0.0)
    assert set(picked(lanes, 0.0)) == set(many[5:])


def test_of_very_many_keys_those_that_rest_give_their_places_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else whoever comes behind them in the index would wait for as long as their limits do."""
    monkeypatch.setattr(lanes_module, "MOST_LANES", 5)
    many = [lane("a", key=f"={number}") for number in range(9)]
    lanes, served = Lanes(1, ahead=AHEAD), set[Lane]()
    for _ in range(2):
        lanes.swept([(one, at(-60.0)) for one in many], at(0.0), 0.0)
        wanted = lanes.pick(0.0, everything)
        served |= {one.lane for one in wanted}
        answer(lanes, wanted, 0.0)
        for one in wanted:
            lanes.rest(one.lane, 3600.0, one.since)
        assert len(lanes) == 5
    assert served == set(many)
    for number in range(18):
        lanes.noticed(lane("a", key=f"=n{number}"), 0.0)
    assert len(lanes) == 5


def test_lanes_that_gave_their_places_to_others_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each key of a rate per hour would take memory for an hour."""
    monkeypatch.setattr(lanes_module, "MOST_LANES", 5)
    lanes = Lanes(1, ahead=AHEAD)
    tracemalloc.start()
    for number in range(20_000):
        lanes.swept([(lane("a", key=f"={number}"), at(-60.0))], at(0.0), 0.0)
        for wanted in lanes.pick(0.0, everything):
            lanes.rest(wanted.lane, 3600.0 + number)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 1_000_000
    assert set(picked(lanes, 24_000.0)) == {lane("a", key=f"={number}") for number in range(19_995, 20_000)}


def test_a_lane_whose_claim_had_no_answer_is_picked_again() -> None:
    lanes = known(lane())
    assert picked(lanes, 0.0) == picked(lanes, 0.1) == [lane()]
    assert lanes.next_at() < 0.1


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["hint", "look", "pick", "drain", "shut", "open", "rest"]),
        st.sampled_from("abc"),
        st.sampled_from([0, 128, 255]),
        st.floats(0.0, 1.0),
    ),
    max_size=60,
)


@given(EVENTS)
def test_nothing_that_is_due_is_forgotten_whatever_comes(events: list[tuple[str, str, int, float]]) -> None:
    """Against a model that keeps of each lane every instant that no claim has reached yet."""
    lanes, now = Lanes(1, ahead=AHEAD), 0.0
    due: dict[Lane, set[float]] = defaultdict(set)
    opens: dict[str, float] = defaultdict(float)
    rests: dict[Lane, float] = defaultdict(float)
    for what, endpoint, priority, seconds in events:
        now, one = now + 0.01, lane(endpoint, priority=priority)
        if what == "hint":
            lanes.noticed(one, now)
            due[one].add(now)
        elif what == "look":
            lanes.looked([(one, at(now + seconds))], at(now), now)
            due[one].add(now + seconds)
        elif what == "rest" and due[one]:
            rests[one] = now + seconds
            lanes.rest(one, rests[one])
        elif what in ("shut", "open"):
            opens[endpoint] = now + seconds if what == "shut" else now
            lanes.shut(endpoint, opens[endpoint])
        elif what in ("pick", "drain"):
            wanted = lanes.pick(now, everything)
            assert all(opens[each.endpoint] <= now and rests[each] <= now for each, *_ in wanted)
            answer(lanes, wanted, now, *([0] * len(wanted) if what == "drain" else []))
            for drained, *_ in wanted if what == "drain" else []:
                due[drained] = {instant for instant in due[drained] if instant > now + AHEAD + 1e-5}
    found = {one.lane for one in lanes.pick(now + 10.0, everything, most=100_000)}
    assert {one for one, instants in due.items() if instants} <= found
