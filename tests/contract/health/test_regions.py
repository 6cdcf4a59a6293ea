"""Regions: with one nothing is narrowed; with others what chooses work sees theirs only, and nothing else changes."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.kernel.processes.heartbeat_thread import HealthThread
from app.kernel.processes.process_heartbeat import Component, ProcessKind
from app.kernel.processes.region import REGION, RegionStatus
from app.kernel.sql import in_regions
from app.queue.claiming.claimable_queues import claimable_of, claimable_queues
from app.queue.claiming.full_scan import FullScan
from tests import rows
from tests.claiming import TARGET, add_to, partitions_of, take
from tests.contract.scheduler.conftest import chores
from tests.cron_jobs import add_interval_job
from tests.limited_claims import add_limiters, take_limited
from tests.statements import IN_REGIONS, REGISTRY
from tests.waiting import eventually

WORKER, EU = "wrk_1", "eu-central-1"
LIMITS = {"max_in_flight": 10}
CHOOSING = {
    *("claim_1", "claim_4", "claim_16", "claim_limited_1", "claim_limited_16", "poll_1", "poll_16", "next_partitions"),
    *("promote", "due_jobs", "lost", "stuck", "depth", "next_queue", "claimable_of_queues", "late"),
}
EVERY_ROW = """
    SELECT execution_id AS id, crdb_region, to_jsonb(e) AS content FROM executions AS e
    UNION ALL SELECT job_id, crdb_region, to_jsonb(j) FROM jobs AS j"""


def test_with_one_region_each_statement_is_the_other_without_the_condition() -> None:
    names = {clause: name for name, clause in REGISTRY.items()}
    assert {names[plain] for plain in IN_REGIONS} >= {f"executions.{name}" for name in CHOOSING}
    for plain, narrowed in IN_REGIONS.items():
        stripped = narrowed.text
        for table in ("", "e", "j"):
            stripped = stripped.replace(in_regions(table), "")
        assert REGISTRY[names[plain]].text == stripped != narrowed.text
        assert "region" not in stripped


def running(database: Database) -> None:
    """Let a worker claim two executions."""
    rows.add_executions(database, 2, max_attempts=2)
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    assert len(take(database, WORKER).claims) == 2


def waiting(database: Database) -> None:
    rows.add_executions(database, 2)
    worker_lease.register(database, worker_id=WORKER, host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    add_limiters(database, [TARGET], LIMITS)


def delayed(database: Database) -> None:
    rows.add_executions(database, 2, status="PENDING")


def repeating(database: Database) -> None:
    for _ in range(2):
        add_interval_job(database, timedelta(hours=1))


def lost(database: Database) -> None:
    running(database)
    worker_lease.leave(database, WORKER)


def stuck(database: Database) -> None:
    running(database)
    database.fetch(text("UPDATE executions SET started_at = now() - INTERVAL '1 hour'"))


def too_late(database: Database) -> None:
    delayed(database)
    database.fetch(text("UPDATE executions SET status = 'QUEUED', expires_at = now()"))
    database.fetch(text("UPDATE endpoints SET paused_at = now()"))


ACTS: dict[str, tuple[Callable[[Database], None], Callable[[Database], object]]] = {
    "claim": (waiting, lambda database: take(database, WORKER, partitions=(TARGET,))),
    "claim what a poll finds": (waiting, lambda database: take(database, WORKER)),
    "claim through gates": (waiting, lambda database: take_limited(database, WORKER, LIMITS)),
    "promote": (delayed, lambda database: chores(database).promote()),
    "materialise": (repeating, lambda database: chores(database).materialize()),
    "take back from dead workers": (lost, lambda database: chores(database).reclaim_from_dead_workers()),
    "take back what is stuck": (stuck, lambda database: chores(database).reclaim_stuck()),
    "expire": (too_late, lambda database: chores(database).expire()),
}


def move_one(database: Database) -> None:
    """Give one of the two jobs a home in another region."""
    database.fetch(text("UPDATE jobs SET crdb_region = :eu WHERE job_id = (SELECT min(job_id) FROM jobs)"), {"eu": EU})
    database.fetch(
        text("UPDATE executions AS e SET crdb_region = j.crdb_region FROM jobs AS j WHERE j.job_id = e.job_id")
    )


@pytest.mark.parametrize(
    ("active", "touched"),
    [((REGION,), {REGION, EU}), ((EU,), {EU}), ((EU, REGION), {REGION, EU}), ((), set())],
    ids=["one region", "another", "both", "none"],
)
@pytest.mark.parametrize(("prepare", "act"), ACTS.values(), ids=ACTS)
def test_what_the_active_regions_are_decides_alone_whose_rows_are_touched(
    database: Database,
    prepare: Callable[[Database], None],
    act: Callable[[Database], object],
    active: tuple[str, ...],
    touched: set[str],
) -> None:
    prepare(database)
    move_one(database)
    before = {row.id: row.content for row in database.fetch(text(EVERY_ROW))}
    RegionStatus(database, active).refresh()
    act(database)
    after = database.fetch(text(EVERY_ROW))
    assert {row.crdb_region for row in after if row.id in before and row.content != before[row.id]} == touched


def test_nobody_looks_for_what_is_another_regions(database: Database) -> None:
    add_to(database, TARGET)

    def found() -> list[bool]:
        walk, _now = FullScan(1).step(database, "http")
        seen = (partitions_of(database), walk, claimable_queues(database, 9), claimable_of(database, ["http"], 9))
        return [bool(some) for some in seen]

    assert found() == [True] * 4
    RegionStatus(database, (EU,)).refresh()
    assert found() == [False] * 4


def test_the_region_is_read_and_one_region_narrows_nothing(database: Database) -> None:
    status = RegionStatus(database)
    status.refresh()
    assert (status.alive, status.active_regions, database.regions) == ({REGION: True}, (REGION,), None)


def test_a_process_is_narrowed_as_soon_as_it_has_other_regions(database: Database) -> None:
    thread = HealthThread(database, Component(REGION, ProcessKind.WORKER), RegionStatus(database, (EU,)))
    thread.start()
    eventually(lambda: database.regions == (EU,), what="the filter")
    assert thread.stop(30)
