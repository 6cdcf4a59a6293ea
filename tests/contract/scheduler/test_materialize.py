"""Materialising cron ticks: every tick once and in order, with any number of schedulers."""

import logging
import time
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import event, text

from app.kernel.db import Database
from app.queue.claiming.depth import DEEP
from app.queue.executions import materialization
from app.queue.executions.watermark import ScanPace
from app.schedule.due_ticks import Advance, choose_ticks
from app.scheduler import materializer
from schema.states import EndpointType
from tests import rows
from tests.claiming import AT_ONCE, NEVER
from tests.contract.races.racing import WAYS, Hints, schedulers, strip_locks, total
from tests.contract.scheduler.conftest import chores
from tests.cron_jobs import add_cron_job, add_interval_job, daily, due_jobs, job, missed_ticks, scheduled
from tests.racing import at_once

HOUR = timedelta(hours=1)
HUNDREDTH = timedelta(milliseconds=10)


@pytest.mark.parametrize("way", WAYS)
def test_ten_minutes_of_downtime_yield_every_tick_once_with_three_schedulers(
    database: Database, database_url: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    strip_locks(monkeypatch, way, materialization, "TAKE_DUE", "MATERIALIZE")
    begin = rows.database_now(database)
    zones = ["UTC", "Asia/Kathmandu", "America/New_York"]
    jobs = {add_cron_job(database, "* * * * *", timezone=z, missed=timedelta(minutes=10)): z for z in zones * 8}
    with schedulers(database_url, way, 3) as databases:
        counts = at_once(
            *(chores(scheduler_database, cron_batch_size=5).materialize for scheduler_database in databases)
        )
    for job_id, zone in jobs.items():
        row, found = job(database, job_id), scheduled(database, job_id)
        assert found == missed_ticks("* * * * *", zone, found[0] - timedelta(minutes=1), row.cron_last_tick_at)
        assert found[0] - begin < timedelta(minutes=-8)
        assert found[-1] - begin > timedelta(minutes=-1)
        assert row.cron_next_run_at == found[-1] + timedelta(minutes=1)
    assert total(counts, "ticks") == sum(len(scheduled(database, job_id)) for job_id in jobs)


def test_schedulers_divide_the_due_jobs_and_hold_them_briefly(database: Database, scheduler_database: Database) -> None:
    """Each job is read by one scheduler; a frozen scheduler loses its locks before its jobs are late."""
    for number in range(20):
        add_interval_job(database, HOUR, missed=number * HUNDREDTH)

    def take(*databases: Database) -> list[str]:
        pages = [materialization.due(each, ahead_ms=0, limit=10, takes=True)[0] for each in databases]
        return [due.job_id for page in pages for due in page]

    taken = database.transact_jointly(lambda: take(database, scheduler_database))
    assert len(set(taken)) == len(taken) == 20
    sent: list[str] = []
    event.listen(scheduler_database.engine, "before_cursor_execute", lambda *given: sent.append(given[2].split()[0]))
    assert chores(scheduler_database).materialize()["ticks"] == 20
    assert sent == ["WITH", "WITH", "SET", "WITH"], "look, take, hold briefly, insert"


def test_execution_has_the_fields_of_its_job_and_its_tick(database: Database) -> None:
    rows.add_endpoint(database, "stream", type_=EndpointType.REDIS_STREAM)
    job_id = add_cron_job(database, daily(database), missed=timedelta(days=1), max_attempts=4)
    database.fetch(text("UPDATE jobs SET endpoint = 'stream', endpoint_version = 7, endpoint_type = 'REDIS_STREAM'"))
    hints = Hints()
    assert chores(database, hints=hints).materialize()["ticks"] == 1
    (row,) = database.fetch(text("SELECT * FROM executions"))
    tick = job(database, job_id).cron_last_tick_at
    assert (row.job_id, row.endpoint, row.endpoint_version) == (job_id, "stream", 7)
    assert (row.endpoint_type, row.queue, row.status) == ("REDIS_STREAM", "redis_stream", "QUEUED")
    assert (row.run_at, row.scheduled_at) == (row.created_at, tick)
    assert (row.attempt_count, row.max_attempts) == (0, 4)
    assert row.idempotency_key == f"{job_id}_{int(tick.timestamp())}000"
    assert hints.queues == ["redis_stream"]


def test_missed_ticks_run_in_order_and_after_executions_already_due(database: Database) -> None:
    (waiting,) = rows.add_executions(database)
    job_id = add_cron_job(database, missed=timedelta(minutes=30))
    chores(database).materialize()
    (later,) = rows.add_executions(database)
    by_run_at = database.fetch(text("SELECT execution_id, job_id, scheduled_at FROM executions ORDER BY run_at"))
    assert (by_run_at[0].execution_id, by_run_at[-1].execution_id) == (waiting, later)
    ticks = [row.scheduled_at for row in by_run_at[1:-1]]
    assert ticks == sorted(ticks)
    assert ticks == scheduled(database, job_id)


def test_tick_materialised_ahead_is_due_at_its_instant(database: Database) -> None:
    add_cron_job(database)
    chores(database, look_ahead_seconds=61).materialize()
    rows_ahead = database.fetch(text("SELECT run_at, scheduled_at FROM executions WHERE scheduled_at > created_at"))
    assert rows_ahead
    assert all(row.run_at == row.scheduled_at for row in rows_ahead)


def test_tick_within_the_look_ahead_is_queued_before_its_time(database: Database) -> None:
    job_id = add_cron_job(database)
    assert chores(database).materialize()["ticks"] == 0
    assert chores(database, look_ahead_seconds=61).materialize()["ticks"] in {1, 2}
    (first, *_) = scheduled(database, job_id)
    assert first > rows.database_now(database) - timedelta(seconds=5)


def test_backlog_of_ticks_is_caught_up_in_batches_and_delays_no_other_job(database: Database) -> None:
    job_id = add_cron_job(database, missed=timedelta(minutes=1200))
    scheduler = chores(database)
    fresh, batches = [], []
    while not batches or batches[-1]:
        fresh.append(add_interval_job(database, HOUR))
        before = len(scheduled(database, job_id))
        scheduler.materialize()
        batches.append(len(scheduled(database, job_id)) - before)
        assert len(scheduled(database, fresh[-1])) == 1
        database.fetch(
            text("UPDATE executions SET status = 'CANCELLED', completed_at = now()")
        )  # as if workers kept up
    assert max(batches) <= 500
    assert 1199 <= sum(batches) <= 1201
    found = scheduled(database, job_id)
    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(minutes=1)}


def test_each_of_many_late_jobs_catches_up(database: Database) -> None:
    jobs = [add_cron_job(database, missed=timedelta(minutes=minutes)) for minutes in range(10, 70, 10)]
    assert chores(database, cron_batch_size=2, late_per_pass=4).materialize()["ticks"] == 4 + 4
    assert min(len(scheduled(database, job_id)) for job_id in jobs) == 1


def test_choosing_ticks_for_longer_than_a_transaction_may_idle_stops_no_job(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a long outage, choosing the ticks of a full page takes several seconds."""

    def slowly(*given: Any) -> Advance | None:
        time.sleep(0.11)
        return choose_ticks(*given)

    monkeypatch.setattr(materializer, "choose_ticks", slowly)
    monkeypatch.setattr(materializer, "MAX_CHOOSING_SECONDS", 0.1)
    monkeypatch.setattr(materializer, "HOLD_BRIEFLY", text("SET LOCAL idle_in_transaction_session_timeout = '400ms'"))
    jobs = [add_interval_job(database, HOUR, missed=number * HUNDREDTH) for number in range(8)]
    assert chores(database).materialize()["ticks"] == 8
    assert all(len(scheduled(database, job_id)) == 1 for job_id in jobs)


def test_late_ticks_wait_only_while_their_own_partition_is_deep(database: Database) -> None:
    """Repeated passes create none of these ticks; they follow once the partition has been drained."""
    rows.add_endpoint(database, "other")
    waiting = rows.add_executions(database, DEEP, shards=2)
    late = add_cron_job(database, missed=HOUR)
    others = [
        add_interval_job(database, timedelta(minutes=1), missed=HOUR, endpoint="other"),
        add_interval_job(database, timedelta(minutes=1), missed=HOUR, priority=200),
        add_interval_job(database, timedelta(minutes=1), missed=HOUR, queue="bulk"),
    ]
    scheduler = chores(database, queue_shards=2)
    for _ in range(3):
        scheduler.materialize()
    assert scheduled(database, late) == []
    assert [len(scheduled(database, job_id)) >= 60 for job_id in others] == [True] * 3
    database.fetch(
        text("UPDATE executions SET status = 'CANCELLED', completed_at = now() WHERE execution_id = :id"),
        {"id": waiting[0]},
    )
    scheduler.materialize()
    assert len(scheduled(database, late)) >= 59


@pytest.mark.parametrize(
    "columns", [{"max_catch_up": 60}, {"catch_up": "latest"}, {"catch_up": "none"}, {"overlap": "skip"}]
)
def test_deep_partition_loses_no_tick(database: Database, columns: dict[str, object]) -> None:
    """These ticks do not wait: waiting would lose ticks, or catch up ticks that the policy skips."""
    rows.add_executions(database, DEEP)
    job_id = add_interval_job(database, timedelta(minutes=1), missed=timedelta(seconds=59 * 60 + 30), **columns)
    chores(database).materialize()
    assert scheduled(database, job_id)


def test_interval_of_10_milliseconds_has_all_its_ticks_ahead_of_time(database: Database) -> None:
    other = add_interval_job(database, HOUR)
    job_id = add_interval_job(database, HUNDREDTH, missed=timedelta(seconds=-1))
    scheduler = chores(database, look_ahead_seconds=11, cron_batch_size=1)
    for _ in range(2):
        scheduler.materialize()
    found = scheduled(database, job_id)
    assert len(found) >= 1001
    assert {later - earlier for earlier, later in pairwise(found)} == {HUNDREDTH}
    assert job(database, job_id).cron_next_run_at == found[-1] + HUNDREDTH
    assert len(scheduled(database, other)) == 1


def test_second_materialisation_of_a_tick_changes_nothing(database: Database) -> None:
    """Two schedulers read the same job, or a statement runs twice because its response was lost."""
    job_id = add_cron_job(database, daily(database), missed=timedelta(days=1))
    (found,) = due_jobs(database)
    mine = Advance(found, (found.next_run_at,), found.next_run_at + 2 * HOUR)
    other = Advance(found, (found.next_run_at,), found.next_run_at + HOUR)
    first = materialization.materialize(database, [mine], shards=1)
    assert (first.jobs, first.executions, first.queues) == (1, 1, {"http"})
    for second in (mine, other):
        again = materialization.materialize(database, [second], shards=1)
        assert (again.jobs, again.executions, again.queues, again.locked) == (0, 0, set(), set())
    assert job(database, job_id).cron_next_run_at == found.next_run_at + 2 * HOUR
    assert scheduled(database, job_id) == [found.next_run_at]


@pytest.mark.parametrize("column", ["status = 'RETIRED', retired_at = now(), cron_next_run_at = NULL", "version = 2"])
def test_job_that_was_retired_after_it_was_read_does_not_fire(database: Database, column: str) -> None:
    add_cron_job(database, daily(database), missed=timedelta(days=1))
    (found,) = due_jobs(database)
    database.fetch(text(f"UPDATE jobs SET {column}"))
    done = materialization.materialize(
        database, [Advance(found, (found.next_run_at,), found.next_run_at + HOUR)], shards=1
    )
    assert done.executions == (1 if column == "version = 2" else 0)


def test_tick_that_already_has_an_execution_is_skipped(database: Database) -> None:
    """After a manual edit of the next run, the unique key of the tick prevents a second execution."""
    job_id = add_cron_job(database, daily(database), missed=timedelta(days=1))
    before = job(database, job_id).cron_next_run_at
    chores(database).materialize()
    database.fetch(text("UPDATE jobs SET cron_next_run_at = :at"), {"at": before})
    chores(database).materialize()
    assert scheduled(database, job_id) == sorted(set(scheduled(database, job_id)))


def test_unreadable_jobs_are_logged_once_and_stop_no_other_job(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """The unreadable jobs exceed a batch, and all are due before the readable job."""
    for zone in ("Mars/Olympus", "Mars/Olympus", "Moon/Sea"):
        bad = add_cron_job(database, missed=timedelta(days=30))
        database.fetch(text("UPDATE jobs SET cron_timezone = :zone WHERE job_id = :job"), {"zone": zone, "job": bad})
    bad = add_cron_job(database, missed=timedelta(days=30))
    database.fetch(text("UPDATE jobs SET cron_expression = '0 0 30 2 *' WHERE job_id = :job"), {"job": bad})
    good = add_cron_job(database, daily(database), missed=timedelta(days=3))
    scheduler = chores(database, cron_batch_size=2)
    with caplog.at_level(logging.ERROR):
        assert scheduler.materialize()["ticks"] == 3
        assert scheduler.materialize()["ticks"] == 0
    assert len(scheduled(database, good)) == 3
    assert sum("cannot read job" in record.message for record in caplog.records) == 4


def test_executions_are_spread_over_the_shards(database: Database) -> None:
    for _ in range(4):
        add_cron_job(database, missed=timedelta(minutes=10))
    chores(database, queue_shards=16).materialize()
    shards = {row.shard for row in database.fetch(text("SELECT DISTINCT shard FROM executions"))}
    assert len(shards) > 5
    assert shards <= set(range(16))


@pytest.mark.parametrize(("pace", "found"), [(AT_ONCE, 1), (NEVER, 0)], ids=["full scan", "between two full scans"])
def test_tick_before_the_watermark_is_found_by_the_next_full_scan(
    database: Database, pace: ScanPace, found: int
) -> None:
    scheduler = chores(database, scan_pace=pace)
    for expected in (1, found):
        add_cron_job(database, daily(database), missed=timedelta(days=1))
        assert scheduler.materialize()["ticks"] == expected


def test_stop_ends_a_pass_between_two_statements(database: Database) -> None:
    add_cron_job(database, missed=timedelta(minutes=1500))
    answers = iter([False, True])
    assert chores(database, stopping=lambda: next(answers)).materialize()["ticks"] == 500


@pytest.mark.postgresql_only
def test_due_jobs_are_read_by_their_index(database: Database) -> None:
    for _ in range(20):
        add_cron_job(database, missed=timedelta(minutes=1))
    rows.add_executions(database, 5000)
    database.fetch(text("ANALYZE jobs"))
    params = {
        "ahead_ms": 0,
        "limit": 100,
        "after_run_at": datetime.fromtimestamp(0, None).astimezone(),
        "after_job": "",
    }
    plan = "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + materialization.DUE.text), params))
    assert "idx_jobs_cron_due" in plan
    assert "Seq Scan" not in plan


@pytest.mark.postgresql_only
def test_jobs_are_advanced_by_their_key_with_stale_statistics(database: Database) -> None:
    add_cron_job(database, daily(database), missed=timedelta(days=1))
    copy = (
        "INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, cron_expression, "
        "                  cron_timezone, cron_next_run_at) "
        "SELECT 'job_' || n, 'target', 1, 'HTTP', 'CRON', cron_expression, 'UTC', cron_next_run_at "
        "  FROM jobs, generate_series(1, 20000) AS n"
    )
    database.fetch(text(copy))
    advances = [Advance(due, (due.next_run_at,), due.next_run_at + 48 * HOUR) for due in due_jobs(database)]
    params: dict[str, object] = {}
    event.listen(database.engine, "before_execute", lambda *given: params.update(given[3]), once=True)
    materialization.materialize(database, advances, shards=1)
    explain = text("EXPLAIN " + materialization.MATERIALIZE.text)
    plan = "\n".join(row[0] for row in database.fetch(explain, params))
    assert "Index Scan on pk_jobs" in plan
    assert "Seq Scan on jobs" not in plan
