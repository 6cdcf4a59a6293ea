"""Manual runs: in addition to the schedule, once per idempotency key, or ahead of a delayed job's time."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from app.kernel.db import Database
from tests import rows
from tests.integration.client import Api, problem
from tests.integration.registered import created, cron, one_shot, register


def test_manual_run_of_a_repeating_job_keeps_its_schedule(api: Api, database: Database) -> None:
    register(api)
    job = created(api, cron())
    response = api.post(f"/jobs/{job['job_id']}/run")
    assert (response.status_code, response.json["status"], response.json["job_id"]) == (201, "QUEUED", job["job_id"])
    assert api.post(f"/jobs/{job['job_id']}/run").json["execution_id"] != response.json["execution_id"]
    assert api.get(f"/jobs/{job['job_id']}").json["next_run_at"] == job["next_run_at"]


def test_repeated_run_with_a_key_creates_one_execution(api: Api) -> None:
    register(api)
    job = created(api, cron())
    first = api.post(f"/jobs/{job['job_id']}/run", headers={"Idempotency-Key": "now"})
    again = api.post(f"/jobs/{job['job_id']}/run", headers={"Idempotency-Key": "now"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json == first.json


def test_manual_run_brings_a_delayed_job_forward(api: Api, database: Database) -> None:
    register(api)
    at = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    job = created(api, one_shot("k", trigger="DELAYED", run_at=at))
    ran = api.post(f"/jobs/{job['job_id']}/run")
    assert (ran.status_code, ran.json["execution_id"]) == (200, job["execution"]["execution_id"])
    assert ran.json["status"] == "QUEUED"
    assert datetime.fromisoformat(ran.json["run_at"]) <= rows.database_now(database)
    assert api.get(f"/jobs/{job['job_id']}").json["run_at"] == ran.json["run_at"] == ran.json["scheduled_at"]
    assert api.get(f"/jobs/{job['job_id']}/next-runs").json["runs"][0]["run_at"] == ran.json["run_at"]
    database.fetch(
        text("UPDATE executions SET status = 'RUNNING', worker_id = 'w', started_at = now(), attempt_count = 1")
    )
    problem(api.post(f"/jobs/{job['job_id']}/run"), 409, "CONFLICT")
