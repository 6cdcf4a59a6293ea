"""Concurrent claims of partitions: each execution is claimed by exactly one worker, and none is left."""

import threading
from collections import Counter
from contextlib import suppress
from random import Random

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.processes import worker_lease
from app.queue.claiming import claim
from app.queue.claiming.partition import Partition
from tests import rows
from tests.claiming import add_to, partitions_of, take
from tests.contract.races.racing import WAYS, schedulers, strip_locks

CLAIMERS = 8
PARTITIONS = [Partition(0, f"e{number % 8}", f"={number % 4}", number // 8 * 50) for number in range(40)]
IN_EACH = 38


def claim_all(database: Database, worker_id: str, arms: int, got: list[str]) -> None:
    """Poll, and claim a few executions of some found partitions, until no partition is found."""
    random = Random(worker_id)
    while partitions := partitions_of(database):
        random.shuffle(partitions)
        chosen = tuple(partitions[: random.randint(1, arms)])
        with suppress(UnavailableError):  # each retry ended in a conflict and was rolled back
            got += [
                each.execution_id for each in take(database, worker_id, random.randint(1, 5), partitions=chosen).claims
            ]


@pytest.mark.parametrize("way", WAYS)
def test_each_execution_is_claimed_once_and_none_is_left(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    strip_locks(monkeypatch, way, claim, "CLAIM_1", "CLAIM_4", "CLAIM_16")
    expected = [execution_id for partition in PARTITIONS for execution_id in add_to(database, partition, IN_EACH)]
    database.fetch(text("UPDATE executions SET max_attempts = 99"))
    got: list[list[str]] = [[] for _ in range(CLAIMERS)]
    with schedulers(database_url, way, CLAIMERS) as claimers:
        threads = []
        for number, claimer in enumerate(claimers):
            worker = f"wrk_{number}"
            worker_lease.register(
                database, worker_id=worker, host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000
            )
            arguments = (claimer, worker, (1, 4, 16)[number % 3], got[number])
            threads.append(threading.Thread(target=claim_all, args=arguments))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    counts = Counter(execution_id for execution_ids in got for execution_id in execution_ids)
    assert sorted(counts) == sorted(expected)
    assert set(counts.values()) == {1}
    assert rows.statuses(database) == {"RUNNING": len(expected)}
    assert sum(bool(execution_ids) for execution_ids in got) > 1, "only one worker claimed"
