"""Bulk operations that pause and resume repeating jobs: exactly the jobs of a filter, each once."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.features.bulk_jobs import store as bulk_jobs_store
from app.features.bulk_jobs.operation_job import OperationJob
from app.features.bulk_jobs.store import BULK_OPERATIONS, BulkFilter, BulkOperation, Parameters
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.bulk.bulk_job_kind import AT_ONCE, preview
from app.queue.bulk.bulk_job_runner import BulkJobRunner
from app.queue.executions import on_hold
from app.queue.jobs import job_pause
from app.queue.jobs.job_creation import Creator
from schema.states import BulkAction
from tests import rows
from tests.contract.races.racing import WAYS, schedulers
from tests.cron_jobs import add_cron_job
from tests.racing import at_once

EVERYTHING = BulkFilter()


def kind(database: Database) -> OperationJob:
    return OperationJob(Creator(database, shards=1, look_ahead_ms=60_000))


def runner(database: Database, scheduler: str = "first", size: int = AT_ONCE) -> BulkJobRunner:
    return BulkJobRunner(
        database=database,
        kind=kind(database),
        scheduler_id=scheduler,
        hint=lambda _queue: None,
        stopping=lambda: False,
        at_once=size,
    )


def begin(database: Database, action: BulkAction, wanted: BulkFilter = EVERYTHING) -> BulkOperation:
    return bulk_jobs_store.begin(database, action, wanted, Parameters(), rate=1_000, actor="me")


def statuses(database: Database) -> dict[str, str]:
    return {row.job_id: row.status for row in database.fetch(text("SELECT job_id, status FROM jobs"))}


def set_column(database: Database, job_id: str, column: str, value: Any) -> None:
    database.fetch(text(f"UPDATE jobs SET {column} = {value} WHERE job_id = :id"), {"id": job_id})


@pytest.fixture
def schedules(database: Database) -> list[str]:
    return [add_cron_job(database, "0 0 1 1 *") for _ in range(5)]


def test_pause_affects_the_active_schedules_that_exist_at_its_creation_only(
    database: Database, schedules: list[str]
) -> None:
    (execution,) = rows.add_executions(database)
    once = rows.job_of(database, execution).job_id
    paused, retired, active = schedules[0], schedules[1], schedules[2:]
    job_pause.pause_job(database, paused, "you")
    set_column(database, retired, "status", "'RETIRED', cron_next_run_at = NULL, retired_at = now(), ended_at = now()")
    operation = begin(database, BulkAction.PAUSE)
    later = add_cron_job(database)
    assert runner(database, size=2).run() == (3, 0)
    assert statuses(database) == {
        **dict.fromkeys(active, "PAUSED"), paused: "PAUSED", retired: "RETIRED", later: "ACTIVE", once: "ACTIVE",
    }  # fmt: skip
    assert BULK_OPERATIONS.get(database, operation.operation_id).changed == 3
    assert rows.execution(database, execution).status == "QUEUED", "a one-shot job is no schedule"


def test_resume_affects_the_paused_schedules_and_their_executions(database: Database, schedules: list[str]) -> None:
    waiting = rows.add_tick(database, schedules[0])
    begin(database, BulkAction.PAUSE)
    runner(database).run()
    assert (rows.execution(database, waiting).status, rows.execution(database, waiting).on_hold) == ("PENDING", True)
    (execution,) = rows.add_executions(database)
    once = rows.job_of(database, execution).job_id
    job_pause.pause_job(database, once, "you")
    begin(database, BulkAction.RESUME, BulkFilter(endpoint="target", created_after=EPOCH))
    set_column(database, schedules[1], "created_at", "now() + INTERVAL '1 hour'")
    assert runner(database).run() == (4, 0)
    assert statuses(database)[once] == "PAUSED", "a one-shot job is no schedule"
    assert (rows.execution(database, waiting).status, rows.execution(database, waiting).on_hold) == ("QUEUED", False)
    assert statuses(database)[schedules[1]] == "PAUSED"


def test_filters_choose_the_schedules(database: Database, schedules: list[str]) -> None:
    rows.add_endpoint(database, "other")
    one, two, three, four, five = schedules
    set_column(database, one, "name", "'report'")
    set_column(database, two, "labels", """'{"team": "a", "env": "b"}'""")
    set_column(database, three, "endpoint", "'other'")
    set_column(database, four, "queue", "'bulk'")
    set_column(database, five, "created_at", "created_at - INTERVAL '2 days'")
    now = rows.database_now(database)
    for wanted, expected in (
        (BulkFilter(name="report"), {one}),
        (BulkFilter(labels={"team": "a"}), {two}),
        (BulkFilter(endpoint="other"), {three}),
        (BulkFilter(queue="bulk"), {four}),
        (BulkFilter(created_before=now - timedelta(days=1)), {five}),
        (BulkFilter(created_after=now - timedelta(days=1)), {one, two, three, four}),
        (BulkFilter(job_id=five), {five}),
    ):
        operation = begin(database, BulkAction.PAUSE, wanted)
        seen = preview(database, kind(database), kind(database).filter_of(operation))
        assert (set(seen.sample), seen.count, seen.is_complete) == (expected, len(expected), True), wanted


def test_schedule_that_retired_in_between_is_refused(database: Database, schedules: list[str]) -> None:
    operation = begin(database, BulkAction.PAUSE)
    set_column(
        database, schedules[1], "status", "'RETIRED', cron_next_run_at = NULL, retired_at = now(), ended_at = now()"
    )
    refused = kind(database).process(operation, [*schedules, "job_missing"]).refused
    assert set(refused) == {schedules[1], "job_missing"}
    assert "cannot be paused" in refused[schedules[1]].message
    assert list(statuses(database).values()).count("PAUSED") == 4


@pytest.mark.parametrize("way", [way for way in WAYS if "without" not in way])
def test_several_schedulers_pause_each_schedule_once(
    database: Database, database_url: str, schedules: list[str], way: str
) -> None:
    for job_id in schedules:
        rows.add_tick(database, job_id)
    operation = begin(database, BulkAction.PAUSE)
    with schedulers(database_url, way, 3) as databases:
        counts = at_once(*(runner(each, str(number), size=2).run for number, each in enumerate(databases)))
    assert sorted(counts) == [(0, 0), (0, 0), (5, 0)]
    assert BULK_OPERATIONS.get(database, operation.operation_id).changed == len(schedules)
    found = database.fetch(text("SELECT execution_id FROM execution_events WHERE reason = 'JOB_PAUSED'"))
    assert len({row.execution_id for row in found}) == len(found) == len(schedules)


def test_executions_beyond_the_first_batch_are_left_to_a_scheduler(
    database: Database, schedules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_hold, "BATCH", 1)
    for _ in range(2):
        rows.add_tick(database, schedules[0])
    begin(database, BulkAction.PAUSE)
    runner(database).run()
    found = database.fetch(text("SELECT job_id, change, actor FROM unfinished_changes"))
    assert [tuple(row) for row in found] == [(schedules[0], "PAUSE", "me")]
