"""Intervals of actors: the option `interval` is a repeating job, as `cron` is."""

from datetime import timedelta
from typing import Any

import dramatiq
import pytest
from sqlalchemy import text
from task_executor_dramatiq import TaskExecutorBroker
from task_executor_dramatiq.actor_description import described

from app.catalog.endpoints import versions
from app.catalog.endpoints.actor_endpoints import RegisteredActors, register
from app.kernel.db import Database
from app.queue.jobs.actor_schedules import ActorSchedules
from app.queue.jobs.following_jobs import Placing
from tests.integration.client import Api


def register_with(database: Database, **options: Any) -> RegisteredActors:
    """Register the actor `report` as a worker does."""
    schedules = ActorSchedules(database, Placing(1, 5_000))
    return register(database, [{"name": "report", "options": options}], schedules=schedules)


def jobs_of(database: Database) -> list[tuple[str | int, str]]:
    found = text("SELECT cron_expression, interval_ms, status FROM jobs ORDER BY created_at, job_id")
    return [(row.cron_expression or row.interval_ms, row.status) for row in database.fetch(found)]


def test_interval_of_an_actor_is_one_job_that_follows_the_code(api: Api, database: Database) -> None:
    """Other writings of the same interval change nothing."""
    for interval in ("10m", 600_000, "600s"):
        assert register_with(database, interval=interval).refused == {}
    assert jobs_of(database) == [(600_000, "ACTIVE")]
    assert (versions.get(database, "report").version, api.get("/actors/report").json["interval"]) == (1, "10m")
    register_with(database, interval="5m")
    assert jobs_of(database) == [(600_000, "RETIRED"), (300_000, "ACTIVE")]
    register_with(database)
    assert [status for _, status in jobs_of(database)] == ["RETIRED", "RETIRED"]
    assert "interval" not in versions.get(database, "report").spec


def test_actor_moves_between_cron_and_interval_with_one_job(database: Database) -> None:
    register_with(database, cron="0 9 * * *")
    register_with(database, interval="1h")
    assert jobs_of(database) == [("0 9 * * *", "RETIRED"), (3_600_000, "ACTIVE")]
    register_with(database, cron="0 9 * * *")
    assert jobs_of(database)[1:] == [(3_600_000, "RETIRED"), ("0 9 * * *", "ACTIVE")]


def test_first_run_comes_one_interval_after_the_registration(database: Database) -> None:
    register_with(database, interval="1h")
    (job,) = database.fetch(text("SELECT trigger_type, name, cron_next_run_at - cron_starts_at AS wait FROM jobs"))
    assert (job.trigger_type, job.name, job.wait) == ("INTERVAL", "interval of report", timedelta(hours=1))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"interval": "often"}, "`interval` is 'often'. Must be a number with a unit, such as 500ms"),
        ({"interval": 1.5}, "`interval` is 1.5. Must be a number with a unit"),
        ({"interval": 5}, "`interval` is 5. Must be from 10 ms to 366 days."),
        ({"interval": "10m", "cron": "0 9 * * *"}, "has `cron` and `interval`. Give it one of them."),
    ],
)
def test_invalid_interval_refuses_its_actor_and_stores_nothing(
    database: Database, options: dict[str, Any], reason: str
) -> None:
    assert reason in register_with(database, **options).refused["report"]
    assert jobs_of(database) == []
    assert not database.fetch(text("SELECT 1 FROM endpoints"))


def test_interval_of_the_standard_library_is_sent_in_milliseconds() -> None:
    broker = TaskExecutorBroker(url="postgresql://nobody@127.0.0.1:1/none")
    dramatiq.actor(lambda: None, actor_name="report", broker=broker, interval=timedelta(minutes=10))
    (actor,) = described(broker)
    assert actor["options"]["interval"] == 600_000
