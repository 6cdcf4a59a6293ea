"""The lanes of a queue: when each is picked, for how much, and from where on it is read."""

from collections import defaultdict
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from app.kernel.formats import EPOCH
from app.queue.claiming.partition import Lane
from app.queue.executions.watermark import SLACK
from brokers.sharing.partitions import FIRST_APPETITE, Lanes
from tests.unit.sharing.known_lanes import AHEAD, answer, at, everything, known, lane, picked


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
