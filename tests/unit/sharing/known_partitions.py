"""KnownPartitions with content, and helpers shared by their tests."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from app.queue.claiming.partition import Partition, PartitionQuota
from brokers.sharing.partitions import MAX_PER_CLAIM, KnownPartitions

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AHEAD = 0.05


def partition(endpoint: str = "a", *, key: str = "", priority: int = 128, shard: int = 0) -> Partition:
    return Partition(shard, endpoint, key, priority)


def known(*partitions: Partition) -> KnownPartitions:
    """Return partitions that have executions due at 0.0."""
    found = KnownPartitions(1, ahead=AHEAD)
    for partition_ in partitions:
        found.noticed(partition_, 0.0)
    return found


def everything(_partition: Partition, most: int) -> int:
    return most


def at(seconds: float) -> datetime:
    """Return the database's clock at a local instant."""
    return NOW + timedelta(seconds=seconds)


def answer(partitions: KnownPartitions, wanted: Sequence[PartitionQuota], now: float, *counts: int) -> None:
    """Record the answer of a claim: `counts` executions found per partition, by default a full batch."""
    found = dict.fromkeys((claim.partition for claim in wanted), (MAX_PER_CLAIM, at(now)))
    found.update((claim.partition, (count, at(now))) for claim, count in zip(wanted, counts, strict=False))
    partitions.claimed(wanted, found, at(now), now)


def picked(partitions: KnownPartitions, now: float, arms: int = 16) -> list[Partition]:
    return [claim.partition for claim in partitions.pick(now, everything, arms)]


def next_at(partitions: KnownPartitions) -> float:
    """Return the time of the next event or claim."""
    return min(partitions.event_at, partitions.pick_at)


def wanting(partitions: KnownPartitions, now: float) -> list[str]:
    """Return the endpoints that want slots at an instant."""
    partitions.come_due(now)
    return sorted(partitions.wanting)
