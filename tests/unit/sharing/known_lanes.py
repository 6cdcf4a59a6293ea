"""Lanes of which something is known, and what the tests of them do over and over again."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from app.queue.claiming.partition import Lane, Wanted
from brokers.sharing.partitions import MOST_PER_CLAIM, Lanes

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
