"""Changing a job: new versions, pause and resume, run now."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.db import Database
from app.executions.paused import hold_retries
from tests import rows
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import created, cron, http_endpoint, interval, one_shot, register, register_all


def status_of(database: Database, execution_id: str) -> tuple[str, bool]:
    row = rows.execution(database, execution_id)
    return row.status, row.on_hold


# --- INTERVAL ---


def test_an_interval_job_fires_first_after_one_interval(api: Api) -> None:
    register(api)
    job = created(api, interval())
    assert (job["every"], job["fixed_delay"], job["catch_up"], job["overlap"]) == ("10s", False, "all", "allow")
    assert "cron" not in job
    wait = datetime.fromisoformat(job["next_run_at"]) - datetime.fromisoformat(job["starts_at"])
    assert wait == timedelta(seconds=10)
    assert api.get(f"/jobs/{job['job_id']}").json == job


def test_with_a_start_it_fires_first_at_the_start(api: Api) -> None:
    register(api)
    job = created(api, interval(every=90_000, starts_at="2090-01-01T00:00:00Z"))
    assert (job["every"], job["next_run_at"]) == ("90s", "2090-01-01T00:00:00Z")


@pytest.mark.parametrize(
    "every", ["10", "1.5s", "s", "", "-5s", "999ms", 999, 0, "367d", True, [], 1.5, "9" * 13 + "s"]
)
def test_an_interval_that_is_none(api: Api, every: Any) -> None:
    register(api)
    assert pointers(problem(api.post("/jobs", interval(every=every)), 400, "INVALID_REQUEST")) == ["/every"]


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"cron": "* * * * *"}, "/cron"),
        ({"every": None}, "/every"),
        ({"max_catch_up": 3, "catch_up": "latest"}, "/max_catch_up"),
        ({"max_catch_up": 1001}, "/max_catch_up"),
        ({"catch_up": "ALL"}, "/catch_up"),
        ({"overlap": "queue"}, "/overlap"),
        ({"fixed_delay": "yes"}, "/fixed_delay"),
        ({"fixed_delay": 1}, "/fixed_delay"),
        ({"starts_at": "2090-01-02T00:00:00Z", "ends_at": "2090-01-01T00:00:00Z"}, "/ends_at"),
        ({"ends_at": "2020-01-01T00:00:00Z"}, "/every"),
    ],
)
def test_an_interval_job_that_cannot_be(api: Api, changes: dict[str, Any], where: str) -> None:
    register(api)
    assert pointers(problem(api.post("/jobs", interval(**changes)), 400, "INVALID_REQUEST")) == [where]


# --- versions ---


def test_an_update_makes_a_version_and_retires_the_old_one(api: Api, database: Database) -> None:
    register_all(api)
    old = created(api, cron(overlap="skip", ends_at="2090-01-01T00:00:00Z"))
    waiting, running = rows.add_tick(database, old["job_id"]), rows.add_tick(database, old["job_id"])
    worker = {"id": running}
    database.fetch(
        text(
            "UPDATE executions SET status = 'RUNNING', worker_id = 'w', started_at = now(), attempt_count = 1 "
            "WHERE execution_id = :id"
        ),
        worker,
    )
    spec = {"url": "http://127.0.0.1:9/other", "method": "POST"}
    assert api.put("/endpoints/target", http_endpoint(spec=spec, payload_spec="spec")).status_code == 200

    response = api.put(f"/jobs/{old['job_id']}", {"cron": "0 10 * * MON", "input": {"user_id": "u_2"}})
    new = response.json
    assert response.status_code == 200
    assert (new["version"], new["previous_version_id"], new["status"]) == (2, old["job_id"], "ACTIVE")
    assert (new["cron"], new["timezone"], new["input"]) == ("0 10 * * MON", "Asia/Kolkata", {"user_id": "u_2"})
    assert (new["overlap"], new["ends_at"], new["endpoint_version"]) == ("skip", "2090-01-01T00:00:00Z", 2)
    assert datetime.fromisoformat(new["next_run_at"]).hour == 10
    assert api.get(f"/jobs/{new['job_id']}").json == new

    before = api.get(f"/jobs/{old['job_id']}").json
    assert (before["status"], before["replaced_by_id"], before["next_run_at"]) == ("RETIRED", new["job_id"], None)
    assert before["endpoint_version"] == 1
    assert status_of(database, waiting)[0] == "CANCELLED"
    assert status_of(database, running)[0] == "RUNNING"


def test_versions_are_listed_from_any_of_them(api: Api) -> None:
    register(api)
    ids = [created(api, cron())["job_id"]]
    for hour in range(4):
        ids.append(api.put(f"/jobs/{ids[-1]}", {"cron": f"0 {hour} * * *"}).json["job_id"])
    for job_id in (ids[0], ids[2], ids[4]):
        found, cursor = [], None
        while True:
            page = api.get(f"/jobs/{job_id}/versions", limit=2, **({"cursor": cursor} if cursor else {})).json
            found += [(item["version"], item["job_id"]) for item in page["items"]]
            cursor = page["cursor"]
            if cursor is None:
                break
        assert found == [(version, ids[version - 1]) for version in (5, 4, 3, 2, 1)]
    problem(api.get("/jobs/job_none/versions"), 404, "JOB_NOT_FOUND")


def test_only_repeating_jobs_that_live_are_updated(api: Api) -> None:
    register(api)
    single = created(api, one_shot("k"))
    problem(api.put(f"/jobs/{single['job_id']}", {"input": {}}), 409, "JOB_NOT_UPDATABLE")
    old = created(api, cron())
    new = api.put(f"/jobs/{old['job_id']}", {}).json
    error = problem(api.put(f"/jobs/{old['job_id']}", {}), 409, "JOB_NOT_UPDATABLE")
    assert new["job_id"] in error["message"]
    problem(api.put("/jobs/job_none", {}), 404, "JOB_NOT_FOUND")


@pytest.mark.parametrize(
    ("body", "status", "code", "where"),
    [
        ({"cron": "61 * * * *"}, 422, "INVALID_CRON", ["/cron"]),
        ({"timezone": "Mars/Olympus"}, 400, "INVALID_REQUEST", ["/timezone"]),
        ({"every": "10s"}, 400, "INVALID_REQUEST", ["/every"]),
        ({"fixed_delay": True}, 400, "INVALID_REQUEST", ["/fixed_delay"]),
        ({"ends_at": "1990-01-01T00:00:00Z"}, 400, "INVALID_REQUEST", ["/ends_at"]),
        ({"input": {"user_id": 7}}, 422, "INPUT_VALIDATION_FAILED", ["/input/user_id"]),
        ({"trigger": "CRON"}, 400, "INVALID_REQUEST", ["/trigger"]),
    ],
)
def test_an_update_that_cannot_be_changes_nothing(
    api: Api, body: dict[str, Any], status: int, code: str, where: list[str]
) -> None:
    register_all(api)
    job = created(api, cron())
    assert pointers(problem(api.put(f"/jobs/{job['job_id']}", body), status, code)) == where
    assert api.get(f"/jobs/{job['job_id']}").json == job
    assert len(api.get("/jobs").json["items"]) == 1


def test_a_paused_job_stays_paused_in_its_next_version(api: Api) -> None:
    register(api)
    job = created(api, interval())
    api.post(f"/jobs/{job['job_id']}/pause")
    new = api.put(f"/jobs/{job['job_id']}", {"every": "20s"}).json
    assert (new["status"], new["next_run_at"], new["every"]) == ("PAUSED", None, "20s")
    assert new["paused_at"] is not None
    resumed = api.post(f"/jobs/{new['job_id']}/resume").json
    assert (resumed["status"], resumed["paused_at"]) == ("ACTIVE", None)
    assert resumed["next_run_at"] is not None


# --- pause and resume ---


def test_a_pause_holds_what_has_not_begun_and_stops_ticks(api: Api, database: Database) -> None:
    register(api)
    job = created(api, cron(cron="* * * * *", timezone="UTC"))
    now, later = (
        rows.add_tick(database, job["job_id"]),
        rows.add_tick(database, job["job_id"], "PENDING", due_in=timedelta(hours=1)),
    )
    paused = api.post(f"/jobs/{job['job_id']}/pause")
    assert paused.status_code == 200
    assert (paused.json["status"], paused.json["next_run_at"]) == ("PAUSED", None)
    assert status_of(database, now) == status_of(database, later) == ("PENDING", True)
    again = api.post(f"/jobs/{job['job_id']}/pause")
    assert again.json == paused.json
    assert [item["job_id"] for item in api.get("/jobs", status="PAUSED").json["items"]] == [job["job_id"]]

    resumed = api.post(f"/jobs/{job['job_id']}/resume")
    assert (resumed.json["status"], resumed.json["paused_at"]) == ("ACTIVE", None)
    assert datetime.fromisoformat(resumed.json["next_run_at"]) > rows.database_now(database)
    assert status_of(database, now) == ("QUEUED", False)
    assert status_of(database, later) == ("PENDING", False)
    assert api.post(f"/jobs/{job['job_id']}/resume").json["status"] == "ACTIVE"


def test_retries_of_what_was_running_at_the_pause_are_held(api: Api, database: Database) -> None:
    register(api)
    job = created(api, cron())
    failed = rows.add_tick(database, job["job_id"])
    api.post(f"/jobs/{job['job_id']}/pause")
    asked_for = api.post(f"/jobs/{job['job_id']}/run").json["execution_id"]
    for execution_id in (failed, asked_for):
        database.fetch(
            text(
                "UPDATE executions SET status = 'RETRYING', on_hold = false, attempt_count = 1, max_attempts = 3 "
                "WHERE execution_id = :id"
            ),
            {"id": execution_id},
        )
    assert hold_retries(database) == 1
    assert status_of(database, failed) == ("PENDING", True)
    assert status_of(database, asked_for) == ("RETRYING", False)


def test_a_one_shot_job_can_be_paused_and_cancelled(api: Api, database: Database) -> None:
    register(api)
    job = created(api, one_shot("k"))
    execution_id = job["execution"]["execution_id"]
    api.post(f"/jobs/{job['job_id']}/pause")
    assert status_of(database, execution_id) == ("PENDING", True)
    cancelled = api.post(f"/jobs/{job['job_id']}/cancel").json
    assert (cancelled["status"], cancelled["paused_at"]) == ("RETIRED", None)
    assert status_of(database, execution_id) == ("CANCELLED", False)
    for verb in ("pause", "resume", "run"):
        problem(api.post(f"/jobs/{job['job_id']}/{verb}"), 409, "CONFLICT")
        problem(api.post(f"/jobs/job_none/{verb}"), 404, "JOB_NOT_FOUND")


def test_a_job_whose_time_ended_in_the_pause_retires(api: Api, database: Database) -> None:
    register(api)
    job = created(api, interval(ends_at="2090-01-01T00:00:00Z"))
    api.post(f"/jobs/{job['job_id']}/pause")
    database.fetch(text("UPDATE jobs SET cron_ends_at = now()"))
    resumed = api.post(f"/jobs/{job['job_id']}/resume").json
    assert resumed["status"] == "RETIRED"
    assert resumed["retired_at"] is not None


def test_a_patch_pauses_resumes_or_updates(api: Api) -> None:
    register(api)
    job = created(api, cron())
    path = f"/jobs/{job['job_id']}"
    assert api.send("PATCH", path, json={"status": "PAUSED"}).json["status"] == "PAUSED"
    assert api.send("PATCH", path, json={"status": "ACTIVE"}).json["status"] == "ACTIVE"
    for body in ({"status": "RETIRED"}, {"status": "PAUSED", "cron": "* * * * *"}):
        assert pointers(problem(api.send("PATCH", path, json=body), 400, "INVALID_REQUEST")) == ["/status"]
    new = api.send("PATCH", path, json={"cron": "0 10 * * MON"}).json
    assert (new["version"], new["cron"]) == (2, "0 10 * * MON")
    problem(api.send("PATCH", path, json={"status": "PAUSED"}), 409, "CONFLICT")


# --- run now ---


def test_a_repeating_job_runs_now_as_well(api: Api, database: Database) -> None:
    register(api)
    job = created(api, cron())
    response = api.post(f"/jobs/{job['job_id']}/run")
    assert (response.status_code, response.json["status"], response.json["job_id"]) == (201, "QUEUED", job["job_id"])
    assert api.post(f"/jobs/{job['job_id']}/run").json["execution_id"] != response.json["execution_id"]
    assert api.get(f"/jobs/{job['job_id']}").json["next_run_at"] == job["next_run_at"]


def test_a_key_makes_one_run_of_two(api: Api) -> None:
    register(api)
    job = created(api, cron())
    first = api.post(f"/jobs/{job['job_id']}/run", headers={"Idempotency-Key": "now"})
    again = api.post(f"/jobs/{job['job_id']}/run", headers={"Idempotency-Key": "now"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json == first.json


def test_a_delayed_job_is_brought_forward(api: Api, database: Database) -> None:
    register(api)
    at = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    job = created(api, one_shot("k", trigger="DELAYED", run_at=at))
    ran = api.post(f"/jobs/{job['job_id']}/run")
    assert (ran.status_code, ran.json["execution_id"]) == (200, job["execution"]["execution_id"])
    assert ran.json["status"] == "QUEUED"
    assert datetime.fromisoformat(ran.json["run_at"]) <= rows.database_now(database)
    database.fetch(
        text("UPDATE executions SET status = 'RUNNING', worker_id = 'w', started_at = now(), attempt_count = 1")
    )
    problem(api.post(f"/jobs/{job['job_id']}/run"), 409, "CONFLICT")
