"""Claims through limiters: number and order of claimed executions, and the limiter states that a claim returns."""

import pytest
from sqlalchemy import text

from app.catalog.endpoints.limits import EndpointLimits
from app.features.limits.limited_claim import limited, parameters_of
from app.features.limits.limited_claim_statement import CLAIM_LIMITED_1
from app.features.limits.rules import Limiter, LimiterState, limiters_of
from app.kernel.formats import EPOCH
from app.queue.claiming.claim import ClaimAnswer, claim
from app.queue.claiming.partition import ClaimRequest, Partition, PartitionQuota
from app.queue.claiming.release import Release, release
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.claiming import TARGET, add_to
from tests.limited_claims import add_limiters, end, limiters_of_partitions, take_limited

HOUR = {"count": 3, "per": "1h", "burst": 3}
KEYS = [Partition(0, "target", f"={name}", 128) for name in "abcd"]


def ids(answer: object) -> list[str]:
    return [claim.execution_id for claim in answer.claims]  # type: ignore[attr-defined]


def test_limiter_without_a_row_is_reported_missing_and_admits_nothing(process: WorkerProcess) -> None:
    add_to(process.database, TARGET)
    limits = {"max_in_flight": 1}
    answer = take_limited(process.database, process.worker_id, limits)
    assert (answer.claims, answer.limiters["target"].is_missing) == ([], True)
    add_limiters(process.database, [TARGET], limits)
    answer = take_limited(process.database, process.worker_id, limits)
    assert (len(answer.claims), answer.limiters["target"].is_missing) == (1, False)


def test_claim_result_is_read_in_any_order_of_its_rows(process: WorkerProcess) -> None:
    """SQL promises no order, and only one row has the states of the limiters."""
    add_to(process.database, TARGET, 3)
    add_limiters(process.database, [TARGET], {"max_in_flight": 3})
    wanted, limiters = [PartitionQuota(TARGET, 3, EPOCH)], limiters_of_partitions([TARGET], {"max_in_flight": 3})
    request = ClaimRequest("http", process.worker_id, 0)
    found = process.database.fetch(CLAIM_LIMITED_1, parameters_of(wanted, limiters, request), repeatable=False)
    assert len(found) == 3
    for rows_read in (found, found[::-1]):
        result = limited(ClaimAnswer.of(rows_read, wanted, request, 0.0), rows_read, wanted, limiters)
        assert (len(result.claims), result.limiters["target"].is_ours) == (3, True)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_in_flight": 3},
        {"rate": HOUR},
        {"rate": {"count": 3, "per": "1h", "window": "sliding"}},
        {"per_key": {"key": "{{input.x}}", "max_in_flight": 3}},
        {"per_key": {"key": "{{input.x}}", "rate": HOUR}},
        {"per_key": {"key": "{{input.x}}", "rate": {"count": 3, "per": "1h", "window": "sliding"}}},
        {"max_in_flight": 3, "per_key": {"key": "{{input.x}}", "max_in_flight": 9}},
        {"rate": HOUR | {"count": 9, "burst": 9}, "max_in_flight": 3},
    ],
    ids=str,
)
def test_oldest_executions_are_claimed_up_to_the_limit_and_the_rest_is_unchanged(
    process: WorkerProcess, limits: dict[str, object]
) -> None:
    partition = KEYS[0]
    added = [add_to(process.database, partition, due_in=due_in)[0] for due_in in (-9, -8, -7, -6, -5)]
    add_limiters(process.database, [partition], limits)
    waiting = rows.execution(process.database, added[3])
    answer = take_limited(process.database, process.worker_id, limits, partitions=[partition])
    assert sorted(ids(answer)) == sorted(added[:3])
    again = take_limited(process.database, process.worker_id, limits, partitions=[partition])
    assert again.claims == []
    assert rows.execution(process.database, added[3]) == waiting
    # The claim read more rows than it claimed: the partition is not empty, and its mark stays at the last claim.
    assert answer.found[partition].rows == 10
    assert answer.found[partition].seen == rows.execution(process.database, added[2]).run_at


@pytest.mark.parametrize("per_key", [False, True], ids=["endpoint", "key"])
def test_window_does_not_count_released_claims(process: WorkerProcess, *, per_key: bool) -> None:
    rate = {"rate": {"count": 3, "per": "24h", "window": "sliding"}}
    limits = {"per_key": {"key": "{{input.x}}"} | rate} if per_key else rate
    partition = KEYS[0]
    add_to(process.database, partition, 9)
    add_limiters(process.database, [partition], limits)
    first, second, _ = take_limited(process.database, process.worker_id, limits, partitions=[partition]).claims
    releases = [Release(claim.key, 60_000, windows=claim.windows) for claim in (first, second)]
    assert len(release(process.database, process.worker_id, releases)) == 2
    # A second release does not change the window, nor does a release from a window that did not count the claim.
    again = [*releases, Release(second.key, windows=((releases[0].windows[0][0], 1),))]
    assert release(process.database, process.worker_id, again) == []
    assert len(take_limited(process.database, process.worker_id, limits, partitions=[partition]).claims) == 2
    assert take_limited(process.database, process.worker_id, limits, partitions=[partition]).claims == []


def test_each_completion_frees_capacity_for_one_claim(process: WorkerProcess) -> None:
    limits = {"max_in_flight": 3, "per_key": {"key": "{{input.x}}", "max_in_flight": 2}}
    for partition in KEYS[:2]:
        add_to(process.database, partition, 9)
    add_limiters(process.database, KEYS[:2], limits)
    first = take_limited(process.database, process.worker_id, limits, partitions=KEYS[:2])
    assert sorted(claim.limit_key for claim in first.claims) in (["=a", "=a", "=b"], ["=a", "=b", "=b"])
    ended = next(claim for claim in first.claims if claim.limit_key == "=a")
    end(process.database, [ended.execution_id])
    second = take_limited(process.database, process.worker_id, limits, partitions=KEYS[:1])
    assert [claim.limit_key for claim in second.claims] == ["=a"]
    assert second.limiters["target"].in_flight == 2


def test_keys_share_the_capacity_of_the_endpoint_in_turns(process: WorkerProcess) -> None:
    limits = {"max_in_flight": 6, "per_key": {"key": "{{input.x}}", "max_in_flight": 5}}
    for partition in KEYS[:3]:
        add_to(process.database, partition, 9)
    add_limiters(process.database, KEYS[:3], limits)
    answer = take_limited(process.database, process.worker_id, limits, partitions=KEYS[:3])
    assert sorted(claim.limit_key for claim in answer.claims) == ["=a", "=a", "=b", "=b", "=c", "=c"]


def test_partitions_are_served_in_the_order_of_the_request(process: WorkerProcess) -> None:
    """The consumer gives a lower priority its turn by naming its partition first."""
    limits = {"max_in_flight": 4}
    high, low = TARGET._replace(priority=200), TARGET._replace(priority=10)
    for partition in (high, high._replace(limit_key="=a"), low):
        add_to(process.database, partition, 3)
    add_limiters(process.database, [TARGET], limits)
    by_key = [high, high._replace(limit_key="=a"), low]
    answer = take_limited(process.database, process.worker_id, limits, partitions=by_key)
    assert sorted((claim.priority, claim.limit_key) for claim in answer.claims) == [(200, "")] * 2 + [(200, "=a")] * 2
    end(process.database, ids(answer))
    answer = take_limited(process.database, process.worker_id, limits, partitions=[low, high])
    assert sorted(claim.priority for claim in answer.claims) == [10, 10, 10, 200]


def test_executions_without_a_key_are_limited_by_the_endpoint_only(process: WorkerProcess) -> None:
    limits = {"max_in_flight": 5, "per_key": {"key": "{{input.x}}", "max_in_flight": 1}}
    add_to(process.database, TARGET, 9)
    add_limiters(process.database, [TARGET], limits)
    assert len(take_limited(process.database, process.worker_id, limits).claims) == 5


def test_claim_with_outdated_rules_claims_nothing(process: WorkerProcess) -> None:
    """Otherwise the claim would miss a limit or a pause that is newer than its rules."""
    add_to(process.database, TARGET, 2)
    known = process.rules.revision
    process.database.fetch(text("UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow'"))
    wanted, request = (
        [PartitionQuota(TARGET, 1, EPOCH)],
        ClaimRequest("http", process.worker_id, 0, flow_revision=known),
    )
    stale = claim(process.database, wanted, request)
    assert (stale.claims, stale.flow_revision) == ([], known + 1)
    assert len(claim(process.database, wanted, request._replace(flow_revision=known + 1)).claims) == 1


@pytest.mark.parametrize("rate", [HOUR | {"count": 1, "burst": 1}, {"count": 1, "per": "1h", "window": "sliding"}])
@pytest.mark.parametrize("fault", ["older rules", "no lease"])
def test_rejected_claim_uses_no_tokens(process: WorkerProcess, rate: dict[str, object], fault: str) -> None:
    add_to(process.database, TARGET, 2)
    add_limiters(process.database, [TARGET], {"rate": rate})
    known, worker_id = process.rules.revision, process.worker_id
    if fault == "older rules":
        process.database.fetch(text("UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow'"))
    else:
        worker_id = "wrk_unknown"
    assert take_limited(process.database, worker_id, {"rate": rate}, flow_revision=known).claims == []
    assert len(take_limited(process.database, process.worker_id, {"rate": rate}).claims) == 1


def test_start_that_is_claimed_ahead_is_due_at_its_instant(process: WorkerProcess) -> None:
    limits = {"rate": {"count": 10, "per": "1s", "burst": 1}}
    add_to(process.database, TARGET, 9)
    add_limiters(process.database, [TARGET], limits)
    answer = take_limited(process.database, process.worker_id, limits, most_ahead=50)
    waits = sorted(claim.due_in_seconds for claim in answer.claims)
    assert waits == pytest.approx([0.0, 0.1, 0.2], abs=1e-6)
    # The endpoint's `max_age_ms` counts from the time at which the execution was due.
    assert min(claim.late_seconds for claim in answer.claims) >= 1


def test_nothing_is_claimed_through_a_limiter_with_a_concurrent_claim(process: WorkerProcess) -> None:
    limits = {"max_in_flight": 2}
    add_to(process.database, TARGET, 2)
    add_limiters(process.database, [TARGET], limits)
    with process.database.engine.connect() as other:
        other.execute(text("UPDATE gates SET revision = revision + 1"))
        answer = take_limited(process.database, process.worker_id, limits)
        assert (answer.claims, answer.limiters["target"].is_ours) == ([], False)
        if not process.database.is_cockroach:
            # The losing claim must not lock rows that the winner claims.
            locked = text("SELECT count(*) FROM executions WHERE CAST(xmax AS TEXT) <> '0'")
            assert other.execute(locked).scalar_one() == 0
        # Rows locked by the other claim still count as found. Otherwise the partition would be considered empty.
        other.execute(text("SELECT 1 FROM executions FOR UPDATE"))
        assert take_limited(process.database, process.worker_id, limits).found[TARGET].rows == 10
        other.rollback()
    assert len(take_limited(process.database, process.worker_id, limits).claims) == 2


@pytest.mark.parametrize("table", ["gates", "executions"])
def test_locked_limiter_or_execution_delays_no_claim_of_other_keys(process: WorkerProcess, table: str) -> None:
    limits = {"per_key": {"key": "{{input.x}}", "max_in_flight": 3}}
    (locked,), (free,) = (add_to(process.database, partition) for partition in KEYS[:2])
    add_limiters(process.database, KEYS[:2], limits)
    key = {"gates": "gate_id = 'target=a'", "executions": "limit_key = '=a'"}[table]
    with process.database.engine.begin() as other:
        assert other.execute(text(f"SELECT 1 FROM {table} WHERE {key} FOR UPDATE")).all()
        assert ids(take_limited(process.database, process.worker_id, limits, partitions=KEYS[:2])) == [free]
    assert ids(take_limited(process.database, process.worker_id, limits, partitions=KEYS[:2])) == [locked]


def test_slower_earlier_rate_or_a_clock_set_back_delays_starts_briefly_only(process: WorkerProcess) -> None:
    add_to(process.database, TARGET, 2)
    add_limiters(process.database, [TARGET], {"rate": HOUR})
    # An arrival time from a day ahead.
    process.database.fetch(
        text("UPDATE gates SET tat_ns = CAST(EXTRACT(EPOCH FROM now()) * 1000 AS BIGINT) * 1000000 + 86400000000000")
    )
    answer = take_limited(process.database, process.worker_id, {"rate": {"count": 1, "per": "1s"}})
    assert answer.claims == []
    assert answer.limiters["target"].tat_ns == 1_000_000_000
    assert answer.limiters["target"].opens_in_ns(
        Limiter("target", "target", "", None, EndpointLimits.from_json({"rate": {"count": 1, "per": "1s"}}).rate, 0), 0
    ) == (1_000_000_000)


def test_raised_rate_applies_at_once_although_the_old_rate_has_used_its_burst(process: WorkerProcess) -> None:
    slow, quick = {"count": 60, "per": "1h", "burst": 60}, {"count": 36_000, "per": "1h", "burst": 100}
    add_to(process.database, TARGET, 70)
    add_limiters(process.database, [TARGET], {"rate": slow})
    assert len(take_limited(process.database, process.worker_id, {"rate": slow}, 70).claims) == 60
    answer = take_limited(process.database, process.worker_id, {"rate": quick}, most_ahead=50)
    (limiter,) = limiters_of_partitions([TARGET], {"rate": quick})
    assert (answer.limiters["target"].opens_in_ns(limiter, 0) or 0) <= 1_000_000_000


def test_windows_of_different_lengths_share_a_ring_and_lose_no_start(process: WorkerProcess) -> None:
    """Each slot holds a hundredth of an earlier, shorter window, which still counts."""
    limits = {"rate": {"count": 130, "per": "24h", "window": "sliding"}}
    add_to(process.database, TARGET, 9)
    add_limiters(process.database, [TARGET], limits)
    process.database.fetch(
        text(
            "INSERT INTO gate_windows (gate_id, slot, bucket, started) SELECT 'target', slot,"
            " CAST(EXTRACT(EPOCH FROM now()) * 1000 AS BIGINT) * 1000000 - 1000, 1 FROM generate_series(0, 127) AS slot"
        )
    )
    assert len(take_limited(process.database, process.worker_id, limits).claims) == 2
    assert take_limited(process.database, process.worker_id, limits).claims == []
    (found,) = process.database.fetch(text("SELECT count(*) AS slots, sum(started) AS started FROM gate_windows"))
    assert (found.slots, found.started) == (128, 130)


def test_worker_without_a_lease_claims_nothing_through_a_limiter(process: WorkerProcess) -> None:
    add_to(process.database, TARGET)
    limits = {"max_in_flight": 1}
    add_limiters(process.database, [TARGET], limits)
    assert take_limited(process.database, "wrk_unknown", limits).claims == []
    assert rows.statuses(process.database) == {"QUEUED": 1}


def test_limiter_state_gives_the_capacity_and_the_time_of_the_next_start() -> None:
    def capacity_and_opening(limits: dict[str, object], *state: int, claimed: int = 0) -> tuple[int, int | None]:
        (limiter,) = limiters_of(EndpointLimits.from_json(limits), "e", "", most_ahead=10)
        found = LimiterState(False, True, *state)
        return found.room(limiter, claimed), found.opens_in_ns(limiter, claimed)

    ms = 1_000_000
    assert capacity_and_opening({"max_in_flight": 3}, 1, 0, 0, 0, claimed=1) == (1, None)
    assert capacity_and_opening({"max_in_flight": 3}, 5, 0, 0, 0) == (0, None)
    sliding = {"rate": {"count": 5, "per": "10s", "window": "sliding"}}
    assert capacity_and_opening(sliding, 0, 3, -900 * ms, 0, claimed=1) == (1, 0)
    assert capacity_and_opening(sliding, 0, 3, -900 * ms, 0, claimed=2) == (0, 9_300 * ms)
    assert capacity_and_opening(sliding, 0, 0, 0, 0, claimed=5) == (0, 10_100 * ms)
    paced = {"rate": {"count": 10, "per": "1s", "burst": 1}}
    assert capacity_and_opening(paced, 0, 0, 0, 0) == (3, 0)
    assert capacity_and_opening(paced, 0, 0, 0, 0, claimed=3) == (0, 100 * ms)
    assert capacity_and_opening(paced | {"max_in_flight": 2}, 2, 0, 0, 0) == (0, None)
    assert len(limiters_of_partitions(KEYS, {"per_key": {"key": "x", "max_in_flight": 1}})) == 4
