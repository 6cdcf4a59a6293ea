"""Reaction of a consumer's discovery to wake-ups; no test reaches the database."""

from datetime import timedelta
from typing import Any, cast

import pytest

from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.formats import EPOCH
from app.kernel.wakeup import Wakeup, digest_of
from app.queue.claiming.partition import Partition
from app.queue.claiming.poll import Polled
from brokers import discovery as module
from brokers.discovery import TIMES, Discovery
from brokers.sharing.partitions import KnownPartitions

NOW = 1000.0
CLOCK = EPOCH + timedelta(days=20_000)
TARGET = Partition(0, "target", "", 128)
WAKEUP = Wakeup("http", digest_of(*TARGET), CLOCK)


def discovery(*recent: Partition) -> tuple[Discovery, KnownPartitions]:
    """Return an idle discovery whose next poll is an hour away; it knows the digests of some partitions."""
    partitions = KnownPartitions(1, ahead=0.05)
    found = Discovery(cast("Database", None), "http", partitions, longest_wait=0.2, ahead=0.05)
    partitions.found([], CLOCK, NOW, by_poll=True)
    for partition in recent:
        found._recent[digest_of(*partition)] = partition  # noqa: SLF001 - as a poll does
    found.poll_at = found.scan_at = NOW + 3600
    return found, partitions


def test_known_partition_is_claimed_without_a_poll() -> None:
    found, partitions = discovery(TARGET)
    found.receive(WAKEUP, NOW)
    assert (len(partitions), found.poll_at) == (1, NOW + 3600)


def test_unknown_partition_causes_one_poll() -> None:
    found, partitions = discovery()
    for number in range(9):
        found.receive(Wakeup("http", digest_of(number, "forged", "", 1), CLOCK), NOW)
    assert (len(partitions), found.poll_at) == (0, NOW)


def test_execution_due_before_the_watermark_causes_a_poll() -> None:
    found, partitions = discovery(TARGET)
    found.receive(WAKEUP._replace(run_at=CLOCK - timedelta(minutes=5)), NOW)
    assert (len(partitions), found.poll_at) == (0, NOW)


def test_wakeups_rest_after_a_vain_claim() -> None:
    """Forged wake-ups may take a tenth of the time, however many arrive."""
    found, partitions = discovery(TARGET)
    found.receive(WAKEUP, NOW)
    partitions.claimed(
        partitions.pick(NOW, lambda _partition, most: most), {TARGET: (0, CLOCK)}, CLOCK, NOW
    )  # nothing is there
    found.drained(0, NOW - 0.001, NOW)
    found.poll_at = NOW + 3600
    for wakeup in (WAKEUP, Wakeup("http"), WAKEUP._replace(run_at=EPOCH)):
        found.receive(wakeup, NOW + 0.001)
    assert len(partitions) == 0
    assert NOW + 0.008 < found.poll_at <= NOW + TIMES.longest_rest_seconds
    found.receive(WAKEUP, NOW + 0.01)
    assert len(partitions) == 1


def test_claim_of_executions_causes_no_rest() -> None:
    found, partitions = discovery(TARGET)
    found.receive(WAKEUP, NOW)
    partitions.claimed(partitions.pick(NOW, lambda _partition, most: most), {TARGET: (1, CLOCK)}, CLOCK, NOW)
    found.drained(1, NOW - 0.001, NOW)
    found.receive(WAKEUP, NOW)
    assert len(partitions) == 1


def test_poll_from_the_start_that_times_out_keeps_no_poll_from_its_watermark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind very many dead entries, which an open snapshot keeps, each read from the start may time out."""
    read_from = []

    def poll(*_args: object, late_since: Any, **_options: object) -> Polled:
        read_from.append(late_since)
        if late_since is not None:
            raise UnavailableError("The statement took too long.")
        return Polled(CLOCK, [], CLOCK, is_full=False, is_cut=False)

    monkeypatch.setattr(module, "poll", poll)
    monkeypatch.setattr(module.time, "monotonic", lambda: NOW + 10)
    found, _ = discovery()
    with pytest.raises(UnavailableError):
        found.poll(NOW)
    found.poll(NOW + 10.5)
    with pytest.raises(UnavailableError):
        found.poll(NOW + 41)
    assert read_from == [EPOCH, None, EPOCH]
