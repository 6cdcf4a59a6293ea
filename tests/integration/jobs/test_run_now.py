"""Manual runs: in addition to the schedule, once per idempotency key, or ahead of a delayed job's time."""

from datetime import UTC, datetime, timedelta
from typing import Any

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


def test_refusal_of_a_retired_job_says_how_it_ended_and_the_remedy(api: Api, database: Database) -> None:
    register(api)

    def refused(job: dict[str, Any], action: str = "run") -> str:
        message: str = problem(api.post(f"/jobs/{job['job_id']}/{action}"), 409, "CONFLICT")["message"]
        assert api.get(f"/jobs/{job['job_id']}").json["retired_at"][:19] in message
        return message

    cancelled, ended, repeating, updated = (
        *(created(api, one_shot("k")), created(api, one_shot("l"))),
        *(created(api, cron()), created(api, cron())),
    )
    for job in (cancelled, repeating):
        assert api.post(f"/jobs/{job['job_id']}/cancel").status_code == 200
    assert " by test, and cannot be run. " in refused(cancelled)
    assert f"POST /executions/{cancelled['execution']['execution_id']}/retry" in refused(cancelled)
    assert " was cancelled at " in refused(repeating, "pause")
    rows.set_status(database, ended["job_id"], "SUCCESS")
    database.fetch(
        text("UPDATE jobs SET status = 'RETIRED', retired_at = now() WHERE job_id = :id"), {"id": ended["job_id"]}
    )
    assert " ended with SUCCESS at " in refused(ended, "resume")
    new = api.send("PUT", f"/jobs/{updated['job_id']}", json={"name": "new"}).json["job_id"]
    assert f"Use its next version: '{new}'." in refused(updated)
    answer = api.send("PUT", f"/jobs/{updated['job_id']}", json={"name": "newer"})
    assert f"'{new}'" in problem(answer, 409, "JOB_NOT_UPDATABLE")["message"]
