"""Intervals, catch-up and overlap on the database: skipped ticks are counted, and busy jobs do not run."""

from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.queue.executions import materialization
from app.schedule.due_ticks import Advance
from tests import rows
from tests.contract.races.racing import schedulers, total
from tests.contract.scheduler.conftest import chores
from tests.cron_jobs import add_interval_job, due_jobs, job, scheduled
from tests.racing import at_once

TEN = timedelta(seconds=10)
HOUR = timedelta(hours=1)


def skipped(database: Database, job_id: str) -> tuple[int, int]:
    row = job(database, job_id)
    return row.skipped_catch_up, row.skipped_overlap


@pytest.mark.parametrize("way", ["read committed", "serializable"])
def test_three_schedulers_materialise_each_interval_tick_once(database: Database, database_url: str, way: str) -> None:
    jobs = [add_interval_job(database, TEN, missed=timedelta(minutes=10)) for _ in range(6)]
    with schedulers(database_url, way, 3) as databases:
        counts = at_once(
            *(chores(scheduler_database, cron_batch_size=2).materialize for scheduler_database in databases)
        )
    for job_id in jobs:
        found = scheduled(database, job_id)
        assert len(found) >= 61
        assert {after - before for before, after in pairwise(found)} == {TEN}
    assert total(counts, "ticks") == sum(len(scheduled(database, job_id)) for job_id in jobs)


def test_ticks_that_catch_up_leaves_out_are_counted_as_skipped(database: Database) -> None:
    latest = add_interval_job(database, HOUR, missed=timedelta(hours=5, minutes=1), catch_up="latest")
    none = add_interval_job(database, HOUR, missed=timedelta(hours=5, minutes=2), catch_up="none")
    some = add_interval_job(database, HOUR, missed=timedelta(hours=5, minutes=2), max_catch_up=2)
    assert chores(database).materialize()["skipped"] == 5 + 6 + 4
    assert (len(scheduled(database, latest)), skipped(database, latest)) == (1, (5, 0))
    assert (len(scheduled(database, none)), skipped(database, none)) == (0, (6, 0))
    assert (len(scheduled(database, some)), skipped(database, some)) == (2, (4, 0))
    assert chores(database).materialize()["skipped"] == 0


def test_job_that_must_not_overlap_runs_one_at_a_time(database: Database) -> None:
    job_id = add_interval_job(database, HOUR, missed=timedelta(hours=3), overlap="skip")
    assert chores(database).materialize()["ticks"] == 1
    assert skipped(database, job_id) == (0, 3)
    # The tick is within the look-ahead and the execution unfinished: the overlap rule does not apply yet.
    database.fetch(text("UPDATE jobs SET cron_next_run_at = now() + INTERVAL '3 seconds'"))
    assert chores(database, look_ahead_seconds=5).materialize()["ticks"] == 0
    assert skipped(database, job_id) == (0, 3)
    database.fetch(text("UPDATE executions SET status = 'CANCELLED', completed_at = now()"))
    assert chores(database, look_ahead_seconds=5).materialize()["ticks"] == 1


def test_job_that_became_busy_after_it_was_read_does_not_advance(database: Database) -> None:
    job_id = add_interval_job(database, HOUR, overlap="skip")
    (read,) = due_jobs(database)
    assert not read.busy
    (other,) = rows.add_executions(database)
    database.fetch(text("UPDATE executions SET job_id = :job"), {"job": job_id})
    won = materialization.materialize(database, [Advance(read, (read.next_run_at,), None)], shards=1)
    assert (won.jobs, won.executions) == (0, 0)
    assert job(database, job_id).cron_next_run_at == read.next_run_at
    assert [row.execution_id for row in database.fetch(text("SELECT execution_id FROM executions"))] == [other]


@pytest.mark.parametrize(
    "place", ["first_version_id", "job_id", None], ids=["first version", "earlier version", "no version"]
)
def test_unfinished_execution_of_an_earlier_version_keeps_a_job_busy(database: Database, place: str | None) -> None:
    first = add_interval_job(database, HOUR, cron_next_run_at=None)
    earlier = add_interval_job(database, HOUR, cron_next_run_at=None, first_version_id=first)
    job_id = add_interval_job(database, HOUR, first_version_id=first, overlap="skip")
    (before,) = due_jobs(database)
    assert not before.busy
    if place is not None:
        rows.add_tick(database, {"first_version_id": first, "job_id": earlier}[place], "RETRYING")
    (after,) = due_jobs(database)
    assert after.busy == (place is not None)
    advance = Advance(before, (before.next_run_at,), before.next_run_at + HOUR)
    won = materialization.materialize(database, [advance], shards=1)
    assert won.executions == (place is None)
    assert len(scheduled(database, job_id)) == (place is None)


def test_fixed_delay_has_no_next_run_while_its_execution_is_unfinished(database: Database) -> None:
    job_id = add_interval_job(database, HOUR, missed=timedelta(hours=3), fixed_delay=True)
    assert chores(database).materialize()["ticks"] == 1
    row = job(database, job_id)
    assert (row.status, row.cron_next_run_at) == ("ACTIVE", None)
    assert row.cron_last_tick_at == scheduled(database, job_id)[0]


def test_interval_job_retires_at_its_end(database: Database) -> None:
    ends_at = rows.database_now(database) - timedelta(minutes=90)
    job_id = add_interval_job(database, HOUR, missed=timedelta(hours=3), cron_ends_at=ends_at)
    counts = chores(database).materialize()
    assert (counts["ticks"], counts["retired"]) == (2, 1)
    assert job(database, job_id).status == "RETIRED"
