"""Regions: statements that choose work read only rows of the active regions; one region adds no condition."""

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


def test_statements_for_one_region_equal_the_regional_statements_without_their_condition() -> None:
    names = {clause: name for name, clause in REGISTRY.items()}
    assert {names[plain] for plain in IN_REGIONS} >= {f"executions.{name}" for name in CHOOSING}
    for plain, narrowed in IN_REGIONS.items():
        stripped = narrowed.text
        for table in ("", "e", "j"):
            stripped = stripped.replace(in_regions(table), "")
        assert REGISTRY[names[plain]].text == stripped != narrowed.text
        assert "region" not in stripped


def running(database: Database) -> None:
    """Prepare two executions claimed by a worker."""
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
    "claim partitions of a poll": (waiting, lambda database: take(database, WORKER)),
    "claim through limiters": (waiting, lambda database: take_limited(database, WORKER, LIMITS)),
    "promote": (delayed, lambda database: chores(database).promote()),
    "materialise": (repeating, lambda database: chores(database).materialize()),
    "reclaim from dead workers": (lost, lambda database: chores(database).reclaim_from_dead_workers()),
    "reclaim stuck executions": (stuck, lambda database: chores(database).reclaim_stuck()),
    "expire": (too_late, lambda database: chores(database).expire()),
}


def move_one_job(database: Database) -> None:
    """Move one of the two jobs, with its executions, to another region."""
    database.fetch(text("UPDATE jobs SET crdb_region = :eu WHERE job_id = (SELECT min(job_id) FROM jobs)"), {"eu": EU})
    database.fetch(
        text("UPDATE executions AS e SET crdb_region = j.crdb_region FROM jobs AS j WHERE j.job_id = e.job_id")
    )


@pytest.mark.parametrize(
    ("active", "touched"),
    [((REGION,), {REGION, EU}), ((EU,), {EU}), ((EU, REGION), {REGION, EU}), ((), set())],
    ids=["own region", "another region", "both", "none"],
)
@pytest.mark.parametrize(("prepare", "act"), ACTS.values(), ids=ACTS)
def test_only_rows_of_the_active_regions_are_changed(
    database: Database,
    prepare: Callable[[Database], None],
    act: Callable[[Database], object],
    active: tuple[str, ...],
    touched: set[str],
) -> None:
    prepare(database)
    move_one_job(database)
    before = {row.id: row.content for row in database.fetch(text(EVERY_ROW))}
    RegionStatus(database, active).refresh()
    act(database)
    after = database.fetch(text(EVERY_ROW))
    assert {row.crdb_region for row in after if row.id in before and row.content != before[row.id]} == touched


def test_work_of_another_region_is_not_found(database: Database) -> None:
    add_to(database, TARGET)

    def found() -> list[bool]:
        scanned, _now = FullScan(1).step(database, "http")
        seen = (partitions_of(database), scanned, claimable_queues(database, 9), claimable_of(database, ["http"], 9))
        return [bool(each) for each in seen]

    assert found() == [True] * 4
    RegionStatus(database, (EU,)).refresh()
    assert found() == [False] * 4


def test_single_region_filters_no_rows(database: Database) -> None:
    status = RegionStatus(database)
    status.refresh()
    assert (status.alive, status.active_regions, database.regions) == ({REGION: True}, (REGION,), None)


def test_process_filters_by_its_active_regions_from_the_first_heartbeat(database: Database) -> None:
    thread = HealthThread(database, Component(REGION, ProcessKind.WORKER), RegionStatus(database, (EU,)))
    thread.start()
    eventually(lambda: database.regions == (EU,), what="the filter by region")
    assert thread.stop(30)
