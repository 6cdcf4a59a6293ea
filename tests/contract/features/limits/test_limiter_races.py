"""Concurrent claims through limiters never exceed the limits, at any isolation level and without row locks.

The lock is an optimisation: a claim changes nothing if another claim used the limiter since its snapshot.
"""

import random
from contextlib import suppress
from functools import partial

import pytest
from sqlalchemy import text

from app.features.limits import limited_claim
from app.kernel.db import Database
from app.kernel.errors import UnavailableError
from app.kernel.processes import worker_lease
from app.queue.claiming.partition import Partition
from tests import rows
from tests.claiming import TARGET, add_to
from tests.contract.races.interleaving import interleavings, pair
from tests.contract.races.racing import WAYS, schedulers, strip_locks
from tests.limited_claims import add_limiters, end, take_limited
from tests.racing import at_once

WORKER = "wrk_1"
CLAIMERS, TURNS = 8, 25
KEYS = [Partition(0, "target", f"=tenant{number}", 128) for number in range(12)]
IN_FLIGHT = {"max_in_flight": 10, "per_key": {"key": "{{input.x}}", "max_in_flight": 2}}
RUNNING = text("SELECT limit_key, count(*) AS n FROM executions WHERE status = 'RUNNING' GROUP BY limit_key")
RUNNING_IDS = text("SELECT execution_id FROM executions WHERE status = 'RUNNING'")
LIMITS_OF_FIVE = [
    {"rate": {"count": 5, "per": "1h", "burst": 5}},
    {"rate": {"count": 5, "per": "1h", "window": "sliding"}},
    {"max_in_flight": 5},
]


@pytest.fixture(autouse=True)
def registered_worker(database: Database) -> None:
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)


def claim_and_end(database: Database) -> tuple[int, int, int]:
    """Claim and complete in turns; returns the maximum running in total and per key, and the number of claims."""
    most, most_of_key, claimed = 0, 0, 0
    for _ in range(TURNS):
        partitions = random.sample(KEYS, 6)
        claims = []
        with suppress(UnavailableError):  # more conflicts than retries of a statement: a consumer claims again later
            claims = take_limited(database, WORKER, IN_FLIGHT, 3, partitions=partitions).claims
        running = [row.n for row in database.fetch(RUNNING)] if claims else []
        most, most_of_key = max(most, sum(running)), max(most_of_key, *running, 0)
        claimed += len(claims)
        if claims:
            end(database, [claim.execution_id for claim in claims])
    return most, most_of_key, claimed


@pytest.mark.parametrize("way", WAYS)
def test_concurrent_claims_exceed_no_limit_of_the_endpoint_or_a_key(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    strip_limiter_locks(monkeypatch, way)
    for partition in KEYS:
        add_to(database, partition, 60)
    add_limiters(database, KEYS, IN_FLIGHT)
    with schedulers(database_url, way, CLAIMERS) as databases:
        found = at_once(*(partial(claim_and_end, each) for each in databases))
    assert max(most for most, _, _ in found) <= 10
    assert max(of_key for _, of_key, _ in found) <= 2
    assert sum(claimed for _, _, claimed in found) > 0
    assert rows.statuses(database).get("RUNNING", 0) == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limits", LIMITS_OF_FIVE, ids=["bucket", "window", "in flight"])
def test_concurrent_claims_use_a_limit_exactly(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, way: str, limits: dict[str, object]
) -> None:
    strip_limiter_locks(monkeypatch, way)
    add_to(database, TARGET, 60)
    add_limiters(database, [TARGET], limits)
    with schedulers(database_url, way, CLAIMERS) as databases:
        at_once(*(partial(take_limited, each, WORKER, limits, 2) for each in databases))
        for each in databases:
            take_limited(each, WORKER, limits)
    assert rows.statuses(database) == {"QUEUED": 55, "RUNNING": 5}


@pytest.mark.postgresql_only
@pytest.mark.parametrize("level", ["read committed", "serializable"])
@pytest.mark.parametrize("locks", ["", " without locks"])
def test_one_claim_of_two_succeeds_in_every_interleaving(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, level: str, locks: str
) -> None:
    strip_limiter_locks(monkeypatch, level + locks)
    limits = {"max_in_flight": 1}
    for partition in KEYS[:2]:
        add_to(database, partition, 10)
    add_limiters(database, [TARGET], limits)
    claims = [partial(take_limited, worker_id=WORKER, limits=limits, partitions=[partition]) for partition in KEYS[:2]]
    with pair(database_url, level) as sides:
        for _ in interleavings(partial(sides.run, claims)):
            running = [row.execution_id for row in database.fetch(RUNNING_IDS)]
            assert len(running) == 1, sides.taken
            end(database, running)


def strip_limiter_locks(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Remove all lock clauses from the claiming statements in the ways without locks."""
    strip_locks(monkeypatch, way, limited_claim, "CLAIM_LIMITED_1", "CLAIM_LIMITED_16")
