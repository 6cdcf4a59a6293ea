"""Reclaim while another transaction locks an execution or its job: all other executions are reclaimed."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.queue.executions.execution_model import Claim
from app.scheduler.chore import Counts
from tests import rows
from tests.contract.scheduler.conftest import chores, held
from tests.contract.scheduler.reclaiming import DEATHS, claimed

NO_RETRY = """UPDATE endpoint_versions SET retry_policy = CAST('{"fail_on": ["WORKER_LOST", "STUCK"]}' AS JSONB)"""
KINDS = {
    "one-shot": "trigger_type = 'DELAYED'",
    "fixed delay": """trigger_type = 'INTERVAL', interval_ms = 60000, fixed_delay = true,
                      cron_last_tick_at = (SELECT scheduled_at FROM executions AS e WHERE e.job_id = j.job_id)""",
}
Reclaim = Callable[..., Counts]


@pytest.fixture(params=["reclaim_from_dead_workers", "reclaim_stuck"])
def reclaim_all(request: pytest.FixtureRequest) -> Reclaim:
    """Each chore that reclaims `abandoned` executions."""

    def run(scheduler: Any, **given: int) -> Counts:
        counts: Counts = getattr(scheduler, request.param)(**given)
        return counts

    return run


def abandoned(database: Database, count: int) -> list[Claim]:
    """Claim executions for a worker that is then dead and stuck."""
    claims = claimed(database, count)
    database.fetch(text(DEATHS["worker row is missing"]))
    database.fetch(text("UPDATE executions SET started_at = now() - INTERVAL '1 hour'"))
    return claims


def test_locked_execution_delays_the_reclaim_of_no_other(
    database: Database, scheduler_database: Database, reclaim_all: Reclaim, caplog: pytest.LogCaptureFixture
) -> None:
    claims = abandoned(database, 30)
    locked, scheduler = claims[3].execution_id, chores(scheduler_database)
    with held(database, "executions", locked):
        assert reclaim_all(scheduler)["retrying"] == 29
        assert reclaim_all(scheduler)["retrying"] == 0
    message = f"execution {locked} is locked by another transaction; reclaim waits until it is released"
    assert [message] == caplog.messages
    assert reclaim_all(scheduler)["retrying"] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_locked_job_of_a_failing_execution_delays_no_other_reclaim(
    database: Database, scheduler_database: Database, reclaim_all: Reclaim, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    database.fetch(text(NO_RETRY))
    claims = abandoned(database, 30)
    database.fetch(text(f"UPDATE jobs AS j SET {KINDS[kind]}"))
    scheduler = chores(scheduler_database)
    with held(database, "jobs", claims[3].job_id):
        assert reclaim_all(scheduler)["failed"] == 29
        assert reclaim_all(scheduler)["failed"] == 0
    assert f"job {claims[3].job_id} is locked by another transaction; reclaim waits until it is released" in caplog.text
    assert reclaim_all(scheduler)["failed"] == 1
    settled = rows.job_of(database, claims[3].execution_id)
    assert (settled.status == "RETIRED") == (kind == "one-shot")
    assert (settled.cron_next_run_at is None) == (kind == "one-shot")


def test_locked_job_delays_no_retry_unless_the_execution_is_to_be_cancelled(
    database: Database, scheduler_database: Database, reclaim_all: Reclaim
) -> None:
    retried, cancelled = abandoned(database, 2)
    request = text("UPDATE executions SET cancel_requested_at = now() WHERE execution_id = :id")
    database.fetch(request, {"id": cancelled.execution_id})
    with held(database, "jobs", retried.job_id, cancelled.job_id):
        assert +reclaim_all(chores(scheduler_database)) == {"retrying": 1}
    assert +reclaim_all(chores(scheduler_database)) == {"cancelled": 1}


def test_locked_job_that_outlives_its_execution_delays_no_reclaim(
    database: Database, scheduler_database: Database, reclaim_all: Reclaim
) -> None:
    database.fetch(text(NO_RETRY))
    claims = abandoned(database, 2)
    database.fetch(text("UPDATE jobs SET trigger_type = 'INTERVAL', interval_ms = 60000"))
    with held(database, "jobs", *(claim.job_id for claim in claims)):
        assert reclaim_all(chores(scheduler_database))["failed"] == 2


@pytest.mark.parametrize("locked", [0, 3, 7, 12], ids=lambda number: f"{number} of 12")
def test_more_locked_executions_than_a_page_hide_no_unlocked_execution(
    database: Database, reclaim_all: Reclaim, locked: int
) -> None:
    found = sorted(claim.execution_id for claim in abandoned(database, 12))
    scheduler = chores(database)
    with held(database, "executions", *found[:locked]):
        assert reclaim_all(scheduler, page=3)["retrying"] == 12 - locked
    assert reclaim_all(scheduler, page=3)["retrying"] == locked


@pytest.mark.parametrize("policy", [{"max_age_ms": "60000"}, {"fail_on": 5}, {"retry_on": [{"path": 5}]}], ids=str)
def test_retry_policy_that_cannot_be_read_delays_no_reclaim(
    database: Database, reclaim_all: Reclaim, policy: dict[str, object]
) -> None:
    rows.add_endpoint(database, "edited", retry_policy={"max_attempts": 2} | policy)
    edited, _ = abandoned(database, 2)
    move = text("UPDATE executions SET endpoint = 'edited' WHERE execution_id = :id")
    database.fetch(move, {"id": edited.execution_id})
    assert reclaim_all(chores(database))["retrying"] == 2
