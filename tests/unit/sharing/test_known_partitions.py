"""Known partitions of a queue: when and for how much each is claimed, and from which time on it is read."""

from collections import defaultdict
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from app.kernel.formats import EPOCH
from app.queue.claiming.partition import Partition
from app.queue.executions.watermark import SLACK
from brokers.sharing.partitions import FIRST_BATCH, KnownPartitions
from tests.unit.sharing.known_partitions import (
    AHEAD,
    answer,
    at,
    everything,
    known,
    next_at,
    partition,
    picked,
    wanting,
)


def test_partition_is_picked_shortly_before_its_due_time_and_forgotten_once_drained() -> None:
    partitions = KnownPartitions(1, ahead=AHEAD)
    partitions.found([(partition(), at(0.2))], at(0.0), 0.0, by_poll=True)
    assert picked(partitions, 0.0) == []
    assert 0.14 < next_at(partitions) < 0.16
    (wanted,) = partitions.pick(0.16, everything)
    assert (wanted.partition, wanted.quota) == (partition(), FIRST_BATCH)
    answer(partitions, [wanted], 0.16, 1)
    assert (len(partitions), next_at(partitions)) == (0, inf)


def test_each_due_time_of_a_partition_is_kept_until_a_claim_has_read_up_to_it() -> None:
    """Polls every 50 ms find the same rows again."""
    partitions = KnownPartitions(1, ahead=AHEAD)
    for _ in range(3):
        due = [(partition(), at(seconds)) for seconds in (-1.0, 0.04, 0.3, 0.5)]
        partitions.found(due, at(0.0), 0.0, by_poll=True)
    answer(partitions, partitions.pick(0.0, everything), 0.0, 2)
    assert 0.24 < next_at(partitions) < 0.26, "rows that were due earlier were claimed"
    wanted = partitions.pick(0.25, everything)
    answer(partitions, wanted, 0.46, 2)
    assert len(partitions) == 0, "the slow claim has read past the last due time"


def test_full_partition_is_read_on_from_the_last_due_time_with_larger_batches() -> None:
    partitions = known(partition())
    for quota in (25, 50, 100, 200, 200):
        (wanted,) = partitions.pick(0.0, everything)
        assert wanted.quota == quota
        partitions.claimed([wanted], {partition(): (quota, at(-60.0))}, at(0.0), 0.0)
    (wanted,) = partitions.pick(0.0, everything)
    assert wanted.since == at(-60.0)
    partitions.claimed([wanted], {partition(): (wanted.quota, at(-1.0))}, at(0.0), 0.0)
    (wanted,) = partitions.pick(0.0, everything)
    assert wanted.since == at(0.0) - SLACK, "uncommitted rows may be due before the last due time that was read"


def test_full_scan_that_finds_rows_behind_a_watermark_sets_the_watermark_back() -> None:
    partitions = KnownPartitions(1, ahead=AHEAD)
    partitions.found([(partition(), at(-1.0))], at(0.0), 0.0, by_poll=True)
    (wanted,) = partitions.pick(0.0, everything)
    assert wanted.since == at(0.0) - SLACK
    answer(partitions, [wanted], 0.0)
    partitions.found([(partition(), at(-600.0))], at(0.0), 0.0)
    assert [claim.since for claim in partitions.pick(0.0, everything)] == [at(-600.0)]


def test_hinted_partition_is_read_from_the_beginning_until_the_database_clock_is_known() -> None:
    partitions = known(partition("a"))
    assert [claim.since for claim in partitions.pick(0.0, everything)] == [EPOCH]
    partitions.found([], at(9.0), 9.0, by_poll=True)
    partitions.noticed(partition("b"), 9.0)
    assert {claim.partition.endpoint: claim.since for claim in partitions.pick(9.0, everything)}["b"] == at(9.0) - SLACK


def test_poll_begins_shortly_before_the_last_poll_even_when_the_clock_was_set_back() -> None:
    partitions = KnownPartitions(2, ahead=AHEAD)
    assert partitions.since == [EPOCH, EPOCH]
    partitions.found([], at(0.0), 0.0, by_poll=True)
    assert partitions.since == [at(0.0) - SLACK] * 2
    partitions.found([], at(-60.0), 1.0, by_poll=True)
    assert partitions.since == [at(-60.0) - SLACK] * 2
    partitions.extend(3)
    assert partitions.since[2:] == [EPOCH]


def test_endpoint_with_an_open_breaker_is_skipped_until_its_time_and_resumed_at_once_when_it_closes() -> None:
    partitions = known(partition("a"), partition("b"))
    partitions.close("a", 3.0)
    assert (wanting(partitions, 0.0), picked(partitions, 0.0)) == (["b"], [partition("b")])
    answer(partitions, partitions.pick(0.0, everything), 0.0, 0)
    partitions.noticed(partition("a", key="=1"), 1.0)
    assert picked(partitions, 1.0) == []
    assert next_at(partitions) == 3.0
    assert set(picked(partitions, 3.0)) == {partition("a"), partition("a", key="=1")}
    partitions.close("a", inf)
    assert (wanting(partitions, 4.0), picked(partitions, 4.0), next_at(partitions)) == ([], [], inf)
    partitions.close("a", 0.0)
    assert len(picked(partitions, 4.0)) == 2
    assert wanting(partitions, 4.0) == ["a"]


def test_resting_partition_is_picked_again_at_its_time_regardless_of_new_rows() -> None:
    partitions = known(partition(key="=1"), partition(key="=2"))
    wanted = partitions.pick(0.0, everything)
    answer(partitions, wanted, 0.0, 0, 25)
    partitions.rest(partition(key="=1"), 2.0, at(-100.0))
    partitions.rest(partition(key="=2"), 1.0)
    partitions.noticed(partition(key="=1"), 0.5)
    partitions.found([(partition(key="=2"), at(0.1))], at(0.5), 0.5, by_poll=True)
    assert picked(partitions, 0.9) == []
    assert next_at(partitions) == 1.0
    assert picked(partitions, 1.0) == [partition(key="=2")]
    assert {claim.partition.limit_key: claim.since for claim in partitions.pick(2.0, everything)}["=1"] == at(-100.0)


def test_partition_whose_claim_got_no_answer_is_picked_again() -> None:
    partitions = known(partition())
    assert picked(partitions, 0.0) == picked(partitions, 0.1) == [partition()]
    assert next_at(partitions) < 0.1


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["hint", "poll", "pick", "drain", "block", "unblock", "rest"]),
        st.sampled_from("abc"),
        st.sampled_from([0, 128, 255]),
        st.floats(0.0, 1.0),
    ),
    max_size=60,
)


@given(EVENTS)
def test_no_due_partition_is_forgotten_in_any_order_of_events(events: list[tuple[str, str, int, float]]) -> None:
    """Compared with a model that keeps every due time of each partition until a claim has read it."""
    partitions, now = KnownPartitions(1, ahead=AHEAD), 0.0
    due: dict[Partition, set[float]] = defaultdict(set)
    opens: dict[str, float] = defaultdict(float)
    rests: dict[Partition, float] = defaultdict(float)
    for event, endpoint, priority, seconds in events:
        now, changed = now + 0.01, partition(endpoint, priority=priority)
        if event == "hint":
            partitions.noticed(changed, now)
            due[changed].add(now)
        elif event == "poll":
            partitions.found([(changed, at(now + seconds))], at(now), now, by_poll=True)
            due[changed].add(now + seconds)
        elif event == "rest" and due[changed]:
            rests[changed] = now + seconds
            partitions.rest(changed, rests[changed])
        elif event in ("block", "unblock"):
            opens[endpoint] = now + seconds if event == "block" else now
            partitions.close(endpoint, opens[endpoint])
        elif event in ("pick", "drain"):
            wanted = partitions.pick(now, everything)
            assert all(opens[each.endpoint] <= now and rests[each] <= now for each, *_ in wanted)
            answer(partitions, wanted, now, *([0] * len(wanted) if event == "drain" else []))
            for drained, *_ in wanted if event == "drain" else []:
                due[drained] = {instant for instant in due[drained] if instant > now + AHEAD + 1e-5}
    found = {claim.partition for claim in partitions.pick(now + 10.0, everything, most=100_000)}
    assert {changed for changed, instants in due.items() if instants} <= found
