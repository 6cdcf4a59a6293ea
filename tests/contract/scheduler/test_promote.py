"""Promotion of delayed executions: each once and before it is due; `run_at` changes only for late executions."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.queue.executions import promotion
from app.queue.executions.watermark import ScanPace
from tests import rows
from tests.claiming import AT_ONCE, NEVER
from tests.contract.races.racing import WAYS, Hints, schedulers, strip_locks, total
from tests.contract.scheduler.conftest import chores
from tests.racing import at_once


def test_execution_due_within_the_look_ahead_is_queued_with_its_run_at(database: Database) -> None:
    (soon,) = rows.add_executions(database, status="PENDING", due_in=timedelta(seconds=4))
    (late,) = rows.add_executions(database, status="PENDING", due_in=timedelta(seconds=60))
    before, hints = rows.execution(database, soon).run_at, Hints()
    assert chores(database, look_ahead_seconds=5, hints=hints).promote()["promoted"] == 1
    assert rows.execution(database, soon).status == "QUEUED"
    assert rows.execution(database, soon).run_at == before
    assert rows.execution(database, late).status == "PENDING"
    assert hints.queues == ["http"]
    assert chores(database, look_ahead_seconds=5).promote()["promoted"] == 0


@pytest.mark.parametrize("way", WAYS)
def test_two_schedulers_promote_each_execution_once(
    database: Database, database_url: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows.add_executions(database, 1700, status="PENDING")
    strip_locks(monkeypatch, way, promotion, "PROMOTE")
    with schedulers(database_url, way) as databases:
        counts = at_once(*(chores(scheduler_database).promote for scheduler_database in databases))
    left = rows.statuses(database).get("PENDING", 0)
    assert total(counts, "promoted") + left == 1700
    # A scheduler stops at a short batch, which the other scheduler may cause; the next pass promotes the rest.
    chores(database).promote()
    assert rows.statuses(database) == {"QUEUED": 1700}


def test_run_continues_until_a_batch_is_short(database: Database) -> None:
    rows.add_executions(database, 1234, status="PENDING")
    assert chores(database).promote()["promoted"] == 1234


def test_executions_of_every_shard_are_promoted(database: Database) -> None:
    rows.add_executions(database, 64, status="PENDING", shards=4)
    assert chores(database, queue_shards=4).promote()["promoted"] == 64


def test_executions_of_a_shard_above_the_setting_are_promoted(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    rows.add_executions(database, 3, status="PENDING")
    database.fetch(text("UPDATE executions SET shard = 9"))
    scheduler = chores(database, queue_shards=4)
    scheduler.survey_shards()
    assert scheduler.promote()["promoted"] == 3
    assert "TE_QUEUE_SHARDS is 4 here, but shard 9 holds executions" in caplog.text


def test_executions_of_an_invalid_shard_are_not_promoted(database: Database) -> None:
    rows.add_executions(database, 3, status="PENDING")
    database.fetch(text("UPDATE executions SET shard = 1000000000"))
    scheduler = chores(database)
    scheduler.survey_shards()
    assert scheduler.promote()["promoted"] == 0


def test_late_promotions_wait_behind_executions_already_due(database: Database) -> None:
    """With an older `run_at` they would be before the watermark, where claims do not read."""
    late = [
        *(
            rows.add_executions(database, status="PENDING", due_in=timedelta(hours=-hours))[0]
            for hours in range(9, 0, -1)
        )
    ]
    before = rows.database_now(database)
    assert chores(database).promote()["promoted"] == 9
    dues = [rows.execution(database, execution).run_at for execution in late]
    assert before < dues[0] < dues[-1] < rows.database_now(database)
    assert dues == sorted(dues)


@pytest.mark.parametrize(("pace", "found"), [(AT_ONCE, 1), (NEVER, 0)], ids=["full scan", "between two full scans"])
def test_execution_before_the_watermark_is_found_by_the_next_full_scan(
    database: Database, pace: ScanPace, found: int
) -> None:
    scheduler = chores(database, queue_shards=4, scan_pace=pace)
    rows.add_executions(database, 64, status="PENDING", shards=4)
    assert scheduler.promote()["promoted"] == 64
    rows.add_executions(database, status="PENDING", due_in=timedelta(hours=-1), shards=4)
    assert scheduler.promote()["promoted"] == found


def test_cancelled_execution_is_not_promoted(database: Database) -> None:
    (execution_id,) = rows.add_executions(database, status="PENDING")
    database.fetch(text("UPDATE executions SET status = 'CANCELLED', completed_at = now()"))
    assert chores(database).promote()["promoted"] == 0
    assert rows.execution(database, execution_id).status == "CANCELLED"


@pytest.mark.postgresql_only
def test_promotion_reads_its_index_and_never_sorts(database: Database) -> None:
    rows.add_executions(database, 20_000, status="PENDING")
    database.fetch(text("ANALYZE executions"))
    params = {"shard": 0, "ahead_ms": 0, "limit": 500, "since": rows.database_now(database)}
    plan = "\n".join(row[0] for row in database.fetch(text("EXPLAIN " + promotion.PROMOTE.text), params))
    assert "idx_executions_waiting" in plan
    due = plan.split("CTE due")[1].split("CTE")[0]
    assert "Seq Scan" not in due
    assert "Sort" not in due
