"""Pruning: deletes executions older than the retention with their attempts, logs and events, and nothing else."""

from collections.abc import Mapping

import pytest
from sqlalchemy import event, text

from app.kernel.db import Database
from app.queue.executions.execution_pruning import EXPIRED
from app.scheduler.pruner import MAX_SLEEP_SECONDS, Pruner, PruningPace
from tests import rows
from tests.contract.races.racing import WAYS, schedulers, total
from tests.contract.scheduler.completed import finish
from tests.contract.scheduler.conftest import chores, context
from tests.cron_jobs import add_cron_job, daily
from tests.racing import at_once
from tests.rows import add_tick


def left(database: Database) -> dict[str, int]:
    tables = ("jobs", "executions", "attempts", "execution_logs", "execution_events")
    return {table: database.fetch(text(f"SELECT count(*) AS n FROM {table}"))[0].n for table in tables}


def test_old_executions_are_deleted_with_their_children_and_jobs(database: Database) -> None:
    finish(database, rows.add_executions(database, 3), days_ago=31)
    finish(database, rows.add_executions(database, 2), days_ago=29)
    rows.add_executions(database, 1)
    counts = chores(database).prune()
    assert (counts["executions"], counts["jobs"]) == (3, 3)
    assert left(database) == {"jobs": 3, "executions": 3, "attempts": 4, "execution_logs": 4, "execution_events": 4}
    assert chores(database).prune()["executions"] == 0


def test_execution_with_more_children_than_a_batch_is_deleted(database: Database) -> None:
    finish(database, rows.add_executions(database, 10), days_ago=31, children=7)
    assert Pruner(context(database), children=4).prune()["executions"] == 10
    assert left(database) == {"jobs": 0, "executions": 0, "attempts": 0, "execution_logs": 0, "execution_events": 0}


def test_one_run_deletes_more_than_a_batch_with_the_same_completion_time(database: Database) -> None:
    finish(database, rows.add_executions(database, 10), days_ago=31)
    assert Pruner(context(database), executions=3).prune()["executions"] == 10


def test_execution_is_kept_for_the_retention_after_its_dead_letter_is_resolved(database: Database) -> None:
    old = finish(database, rows.add_executions(database, 10), days_ago=31)
    letter = (
        "INSERT INTO dead_letters (letter_id, execution_id, job_id, endpoint, endpoint_version, error_type, "
        "  attempt_count, failed_at, resolution, resolved_at) "
        "SELECT 'of_' || execution_id, execution_id, job_id, endpoint, 1, 'X', 1, completed_at, "
        "  CASE WHEN CAST(:days AS BIGINT) IS NOT NULL THEN 'ARCHIVED' END, now() - :days * INTERVAL '1 day' "
        "  FROM executions WHERE execution_id = ANY (:ids)"
    )
    for days, kept in ((None, old[:4]), (29, old[4:8]), (31, old[8:9])):
        database.fetch(text(letter), {"days": days, "ids": kept})
    assert Pruner(context(database), executions=3).prune()["executions"] == 2
    found = {row.execution_id for row in database.fetch(text("SELECT execution_id FROM dead_letters"))}
    assert found == set(old[:8])
    assert left(database)["attempts"] == 16, "attempts of kept executions were deleted"


def test_run_ends_at_its_time_limit(database: Database) -> None:
    finish(database, rows.add_executions(database, 3), days_ago=31)
    assert Pruner(context(database), seconds=-1.0).prune()["executions"] == 0


@pytest.mark.parametrize(("days_ago", "is_late"), [(30.5, False), (32, True)])
def test_pruner_rests_after_each_batch_and_less_when_executions_are_late(
    database: Database, days_ago: float, is_late: bool
) -> None:
    finish(database, rows.add_executions(database, 9), days_ago=days_ago)
    rested: list[bool] = []

    class Pace(PruningPace):
        def rest(self, took: float, *, are_late: bool) -> float:
            assert took > 0
            rested.append(are_late)
            return 0

    assert Pruner(context(database), executions=3, pace=Pace()).prune()["executions"] == 9
    assert rested == [is_late] * 3


def test_rest_is_proportional_to_the_time_of_a_batch() -> None:
    pace = PruningPace()
    assert [pace.rest(2.0, are_late=are_late) for are_late in (False, True)] == [18.0, 2.0]


def test_stopping_process_ends_a_rest(database: Database) -> None:
    finish(database, rows.add_executions(database, 6), days_ago=31)
    slept: list[float] = []
    stopping = context(database, stopping=lambda: len(slept) == 2)
    pruner = Pruner(stopping, executions=3, pace=PruningPace(usual=1e9, late=1e9), sleep=slept.append)
    assert pruner.prune()["executions"] == 3
    assert slept == [MAX_SLEEP_SECONDS] * 2


@pytest.mark.parametrize("status", ["ACTIVE", "RETIRED"])
def test_cron_job_outlives_its_executions(database: Database, status: str) -> None:
    add_cron_job(database, daily(database))
    executions = rows.add_executions(database, 1)
    database.fetch(text("UPDATE executions SET job_id = (SELECT job_id FROM jobs WHERE trigger_type = 'CRON')"))
    finish(database, executions, days_ago=31)
    if status == "ACTIVE":
        database.fetch(text("UPDATE jobs SET status = 'ACTIVE', retired_at = NULL WHERE trigger_type = 'CRON'"))
    counts = chores(database).prune()
    assert (counts["executions"], counts["jobs"]) == (1, 0)


def test_job_that_is_active_or_has_another_execution_stays(database: Database) -> None:
    first, second, third = finish(database, rows.add_executions(database, 3), days_ago=31)
    query = (
        "UPDATE executions SET job_id = (SELECT job_id FROM executions WHERE execution_id = :a), idempotency_key = 'x'"
    )
    database.fetch(text(f"{query} WHERE execution_id = :b"), {"a": first, "b": second})
    database.fetch(text("UPDATE executions SET completed_at = now() WHERE execution_id = :b"), {"b": second})
    active = "UPDATE jobs SET status = 'ACTIVE', retired_at = NULL WHERE job_id = :job"
    database.fetch(text(active), {"job": rows.job_of(database, third).job_id})
    counts = chores(database).prune()
    assert (counts["executions"], counts["jobs"]) == (2, 0)


@pytest.mark.parametrize("way", [way for way in WAYS if "without" not in way])
def test_two_schedulers_delete_each_row_once(database: Database, database_url: str, way: str) -> None:
    """The ways without locks are left out because the usual statements of this chore lock no rows."""
    finish(database, rows.add_executions(database, 1200), days_ago=31)
    with schedulers(database_url, way) as databases:
        counts = at_once(*(chores(scheduler_database).prune for scheduler_database in databases))
    assert total(counts, "executions") == 1200
    assert left(database) == {"jobs": 0, "executions": 0, "attempts": 0, "execution_logs": 0, "execution_events": 0}


def test_children_deleted_concurrently_do_not_end_the_search_for_more(database: Database) -> None:
    """Otherwise executions would be deleted while some of their children remain."""
    finish(database, rows.add_executions(database, 2), days_ago=31, children=5)
    first_page = "SELECT log_id FROM execution_logs ORDER BY execution_id, logged_at, log_id LIMIT 4"
    pruner = Pruner(context(database), children=4)
    with database.engine.connect() as other:
        other.execute(text(f"DELETE FROM execution_logs WHERE log_id IN ({first_page})"))
        assert pruner.prune()["executions"] == 1
        other.commit()
    assert pruner.prune()["executions"] == 1


def test_every_shard_is_pruned(database: Database) -> None:
    finish(database, rows.add_executions(database, 40, shards=4), days_ago=31)
    assert chores(database, queue_shards=4).prune()["executions"] == 40


def test_executions_of_a_shard_above_the_setting_are_pruned(database: Database) -> None:
    finish(database, rows.add_executions(database, 3), days_ago=31)
    database.fetch(text("UPDATE executions SET shard = 9"))
    assert chores(database, queue_shards=4).prune()["executions"] == 3


def test_worker_rows_are_deleted_after_a_day_unless_they_hold_a_claim(database: Database) -> None:
    insert = text(
        "INSERT INTO workers (worker_id, host, pid, lease_expires_at) "
        "VALUES (:worker, 'h', 1, now() - :hours * INTERVAL '1 hour')"
    )
    for worker, hours in (("wrk_old", 25), ("wrk_holds", 25), ("wrk_dead", 23)):
        database.fetch(insert, {"worker": worker, "hours": hours})
    rows.add_executions(database)
    database.fetch(
        text("UPDATE executions SET status = 'RUNNING', worker_id = 'wrk_holds', attempt_count = 1, started_at = now()")
    )
    assert chores(database).prune()["workers"] == 1
    found = {row.worker_id for row in database.fetch(text("SELECT worker_id FROM workers"))}
    assert found == {"wrk_holds", "wrk_dead"}


def test_run_starts_at_a_random_shard_and_prunes_every_shard(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ends at its time limit skips some shards; the next run starts at another shard."""
    pruned: list[int] = []
    monkeypatch.setattr("app.scheduler.pruner.random.randrange", lambda _shards: 5)
    sql = str(EXPIRED.compile(database.engine))

    def note(_connection: object, _cursor: object, sent: str, parameters: Mapping[str, int], *_more: object) -> None:
        if sent == sql:
            pruned.append(parameters["shard"])

    event.listen(database.engine, "before_cursor_execute", note)
    chores(database, queue_shards=8).prune()
    assert pruned == [5, 6, 7, 0, 1, 2, 3, 4]


def versions(database: Database, **changes: str) -> dict[str, str]:
    """Make three versions of a repeating job, two of them ended 31 days ago, and apply the given changes."""
    made = {name: add_cron_job(database, daily(database)) for name in ("first", "second", "third")}
    retired = "status = 'RETIRED', retired_at = now() - INTERVAL '31 days', cron_next_run_at = NULL"
    for change, names in {
        f"UPDATE jobs SET {retired} WHERE job_id = ANY (:ids)": ("first", "second"),
        "UPDATE jobs SET first_version_id = :first WHERE job_id = ANY (:ids)": ("second", "third"),
    }.items():
        database.fetch(text(change), {"ids": [made[name] for name in names], "first": made["first"]})
    for name, change in changes.items():
        database.fetch(text(f"UPDATE jobs SET {change.format(retired=retired)} WHERE job_id = :id"), {"id": made[name]})
    return made


def names_left(database: Database, made: dict[str, str]) -> set[str]:
    jobs = {row.job_id for row in database.fetch(text("SELECT job_id FROM jobs"))}
    return {name for name, job_id in made.items() if job_id in jobs}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"first", "third"}),
        ({"second": "retired_at = now()"}, {"first", "second", "third"}),
        ({"third": "{retired}"}, set()),
        ({"third": "status = 'RETIRED', retired_at = now(), cron_next_run_at = NULL"}, {"first", "third"}),
    ],
    ids=["current version active", "recently ended version", "all versions old", "current version recently ended"],
)
def test_old_versions_are_deleted_and_the_first_version_last(
    database: Database, changes: dict[str, str], expected: set[str]
) -> None:
    """A repeated creation finds the job by the idempotency key of the first version."""
    made = versions(database, **changes)
    for _ in range(2):
        chores(database).prune_versions()
    assert names_left(database, made) == expected


def test_version_with_executions_stays(database: Database) -> None:
    made = versions(database)
    add_tick(database, made["second"], "SUCCESS")
    chores(database).prune_versions()
    assert names_left(database, made) == {"first", "second", "third"}
