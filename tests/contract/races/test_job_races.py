"""Concurrent changes of a job, or a change during a scheduler run: one change wins, and no old version has a tick."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.errors import JobNotUpdatableError
from app.queue.jobs import job_queries
from app.queue.jobs.job_creation import Creator
from app.queue.jobs.job_pause import pause_job
from app.queue.jobs.job_update import update_job
from tests.contract.races.racing import WAYS, schedulers
from tests.contract.scheduler.conftest import chores
from tests.cron_jobs import add_interval_job
from tests.racing import at_once

MINUTE = timedelta(minutes=1)
ROUNDS = 8


@contextmanager
def unlocked(monkeypatch: pytest.MonkeyPatch, way: str) -> Iterator[None]:
    with monkeypatch.context() as patched:
        if way.endswith("without locks"):
            patched.setattr(job_queries, "LOCK", text(job_queries.LOCK.text.replace("FOR UPDATE", "")))
        yield


def creator(database: Database) -> Creator:
    return Creator(database, shards=1, look_ahead_ms=5000)


@pytest.mark.parametrize("way", WAYS)
def test_one_of_three_concurrent_updates_replaces_the_job(
    database: Database, database_url: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:

    def attempt(client: Database, job_id: str) -> str | None:
        try:
            return update_job(creator(client), job_id, {"input": {"from": client.engine.url.database}}).job_id
        except JobNotUpdatableError:
            return None

    with unlocked(monkeypatch, way), schedulers(database_url, way, 3) as databases:
        for _ in range(ROUNDS):
            job_id = add_interval_job(database, MINUTE)
            made = at_once(*(partial(attempt, client, job_id) for client in databases))
            (winner,) = [new_id for new_id in made if new_id is not None]
            assert job_queries.get_job(database, job_id).replaced_by_id == winner
            assert [
                job.version
                for job in job_queries.versions_of(database, job_queries.get_job(database, job_id), _page()).items
            ] == [2, 1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("verb", ["update", "pause"])
def test_updated_or_paused_job_has_no_waiting_tick(
    database: Database, database_url: str, way: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with unlocked(monkeypatch, way), schedulers(database_url, way, 2) as (first, second):
        for _ in range(ROUNDS):
            job_id = add_interval_job(database, MINUTE, missed=timedelta(minutes=30))
            change = (
                partial(update_job, creator(first), job_id, {})
                if verb == "update"
                else partial(pause_job, first, job_id)
            )
            at_once(change, chores(second).materialize)
            waiting = database.fetch(
                text(
                    "SELECT execution_id FROM executions WHERE job_id = :job AND completed_at IS NULL AND NOT on_hold"
                ),
                {"job": job_id},
            )
            assert waiting == []
            assert job_queries.get_job(database, job_id).next_run_at is None


def _page() -> "job_queries.PageRequest":
    return job_queries.PageRequest()
