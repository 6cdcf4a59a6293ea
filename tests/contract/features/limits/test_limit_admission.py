"""Choice of partitions behind limiters: none is claimed in vain, and a closed limiter delays no other partition."""

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from sqlalchemy import text

from app.features.limits.admission import LimitAdmission
from app.features.limits.rules import LimiterState
from app.features.queues.admission import PauseAdmission
from app.kernel.db import Database
from app.queue.claiming.claim import ClaimAnswer, FoundRows
from app.queue.claiming.endpoint_rules import FlowRules
from app.queue.claiming.partition import Partition, PartitionQuota
from brokers.claimer import Choice
from brokers.sharing.fair_shares import Shares
from brokers.sharing.partitions import KnownPartitions
from tests import rows
from tests.target_rules import set_rules
from tests.unit.sharing.known_partitions import next_at

NOW = datetime(2030, 1, 1, tzinfo=UTC)
FULL = LimiterState(is_missing=False, is_ours=True, in_flight=1, started=0, oldest_ns=0, tat_ns=0)
KEYS = [Partition(0, "target", f"={name}", 128) for name in "abc"]


class Side:
    """Partitions and limiters of one consumer; the tests pass the current time."""

    def __init__(self, database: Database) -> None:
        self.rules = FlowRules(database)
        self.rules.refresh()
        self.partitions = KnownPartitions(1, ahead=0.0)
        self.database = database
        self.limits = LimitAdmission(self.rules, 200)
        rules = [PauseAdmission(self.rules), self.limits]
        self.choice = Choice("http", self.partitions, rules, Shares(10_000), self.rules)

    def add_due(self, *partitions: Partition) -> None:
        self.partitions.found([(partition, NOW - timedelta(seconds=1)) for partition in partitions], NOW, 0.0)

    def pick(self, now: float) -> list[PartitionQuota]:
        return self.choice.choose(now)

    def claim_nothing(self, wanted: list[PartitionQuota], state: LimiterState, now: float) -> None:
        """Process the result of a claim that found executions but claimed none, with all limiters in `state`."""
        found = {partition: FoundRows(quota, since) for partition, quota, since in wanted}
        limiters = {
            gate_id: state
            for partition in found
            for gate_id in (partition.endpoint, partition.endpoint + partition.limit_key)
        }
        self.partitions.claimed(wanted, found, NOW, now)
        self.limits.found = limiters
        self.limits.answered(self.database, wanted, ClaimAnswer([], NOW, 0, 0), now)


@pytest.fixture
def side(database: Database) -> Side:
    set_rules(database, {"per_key": {"key": "{{input.x}}", "max_in_flight": 1}})
    return Side(database)


def test_closed_limiter_of_a_key_delays_no_other_key(side: Side) -> None:
    side.add_due(KEYS[0])
    side.claim_nothing(side.pick(0.0), FULL, 0.0)
    assert side.pick(0.01) == []
    # A new partition of the same key is not claimed either, and delays no other key.
    other = KEYS[0]._replace(priority=200)
    side.add_due(other, *KEYS[1:])
    assert {partition.limit_key for partition, _, _ in side.pick(0.02)} == {"=b", "=c"}


def test_completion_in_this_process_opens_the_partitions_of_its_key_at_once(side: Side) -> None:
    side.add_due(*KEYS)
    side.claim_nothing(side.pick(0.0), FULL, 0.0)
    side.limits.freed([("target", "=b")])
    assert [(partition.limit_key, quota) for partition, quota, _ in side.pick(0.01)] == [("=b", 1)]


def test_full_limiter_is_polled_less_and_less_often(side: Side) -> None:
    side.add_due(KEYS[0])
    now, waits = 0.0, list[float]()
    for _ in range(5):
        side.claim_nothing(side.pick(now), FULL, now)
        assert side.pick(now) == []
        waits.append(next_at(side.partitions) - now)
        now = next_at(side.partitions)
    assert 0.1 < waits[0] < 0.3
    assert all(before < after for before, after in pairwise(waits[:4]))
    assert waits[-1] <= 2.0


def test_partition_is_retried_soon_after_a_concurrent_claim(side: Side) -> None:
    side.add_due(KEYS[0])
    side.claim_nothing(side.pick(0.0), FULL._replace(is_ours=False), 0.0)
    assert side.pick(0.001) == []
    assert 0.0 < next_at(side.partitions) < 0.05
    assert len(side.pick(0.05)) == 1


def test_change_of_another_endpoint_opens_no_limiter(database: Database, side: Side) -> None:
    side.add_due(*KEYS)
    side.claim_nothing(side.pick(0.0), FULL, 0.0)
    rows.add_endpoint(database, "other")
    database.fetch(text("UPDATE endpoints SET paused_at = now() WHERE name = 'other' RETURNING 1"))
    assert side.rules.refresh(side.rules.revision + 1)
    assert side.pick(0.01) == []
    set_rules(database, {"per_key": {"key": "{{input.x}}", "max_in_flight": 2}})
    assert side.rules.refresh(side.rules.revision + 1)
    assert len(side.pick(0.02)) == len(KEYS)


def test_paused_endpoint_stays_paused_when_its_breaker_closes(database: Database, side: Side) -> None:
    set_rules(database, paused=True)
    side.rules.refresh(side.rules.revision + 1)
    side.add_due(*KEYS)
    assert side.pick(0.0) == []
    side.partitions.close("target", 0.0)  # a breaker that has closed
    assert side.pick(0.01) == []
    assert next_at(side.partitions) == math.inf
    set_rules(database)
    side.rules.refresh(side.rules.revision + 1)
    assert not side.rules.by_endpoint
    assert len(side.pick(1.0)) == 3
