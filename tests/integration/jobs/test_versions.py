"""Update of a job: a new version takes over, and the old version is retired."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests import rows
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import created, cron, http_endpoint, interval, one_shot, register, register_all


def test_update_creates_a_version_and_retires_the_old_version(api: Api, database: Database) -> None:
    register_all(api)
    old = created(api, cron(overlap="skip", ends_at="2090-01-01T00:00:00Z"))
    before = ("QUEUED", "RETRYING", "RUNNING")
    ticks = [rows.add_tick(database, old["job_id"], status) for status in before]
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

    first = api.get(f"/jobs/{old['job_id']}").json
    assert (first["status"], first["replaced_by_id"], first["next_run_at"]) == ("RETIRED", new["job_id"], None)
    assert first["endpoint_version"] == 1
    assert [rows.execution(database, tick).status for tick in ticks] == ["CANCELLED", "RETRYING", "RUNNING"]


def test_new_version_with_a_fixed_delay_starts_one_interval_after_the_update(api: Api, database: Database) -> None:
    register(api)
    old = created(api, interval(every="1h", fixed_delay=True))
    database.fetch(text("UPDATE jobs SET cron_next_run_at = NULL, cron_last_tick_at = now()"))
    begun = rows.add_tick(database, old["job_id"], "RETRYING")
    database.fetch(text("UPDATE executions SET scheduled_at = (SELECT cron_last_tick_at FROM jobs)"))
    before = rows.database_now(database)
    new = api.put(f"/jobs/{old['job_id']}", {}).json
    hour = timedelta(hours=1)
    assert before + hour <= datetime.fromisoformat(new["next_run_at"]) <= rows.database_now(database) + hour
    assert rows.execution(database, begun).status == "RETRYING"
    # The completion of the old execution sets no tick, neither of the retired version nor of the new version.
    api.post(f"/executions/{begun}/cancel")
    assert api.get(f"/jobs/{new['job_id']}").json["next_run_at"] == new["next_run_at"]
    assert api.get(f"/jobs/{old['job_id']}").json["next_run_at"] is None


def test_versions_are_listed_by_the_id_of_any_version(api: Api) -> None:
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


def test_only_live_repeating_jobs_are_updated(api: Api) -> None:
    register(api)
    single = created(api, one_shot("k"))
    problem(api.put(f"/jobs/{single['job_id']}", {"input": {}}), 409, "JOB_NOT_UPDATABLE")
    for field in ({"run_at": "2099-01-01T00:00:00Z"}, {"delay": "1h"}):
        error = problem(api.put(f"/jobs/{single['job_id']}", field), 400, "INVALID_REQUEST")
        assert "Unknown field. `reschedule` of POST /bulk-operations moves" in error["message"]
    old = created(api, cron())
    new = api.put(f"/jobs/{old['job_id']}", {}).json
    error = problem(api.put(f"/jobs/{old['job_id']}", {}), 409, "JOB_NOT_UPDATABLE")
    assert new["job_id"] in error["message"]
    problem(api.put("/jobs/job_none", {}), 404, "JOB_NOT_FOUND")


@pytest.mark.parametrize(
    ("body", "status", "code", "expected_pointers"),
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
def test_invalid_update_changes_nothing(
    api: Api, body: dict[str, Any], status: int, code: str, expected_pointers: list[str]
) -> None:
    register_all(api)
    job = created(api, cron())
    assert pointers(problem(api.put(f"/jobs/{job['job_id']}", body), status, code)) == expected_pointers
    assert api.get(f"/jobs/{job['job_id']}").json == job
    assert len(api.get("/jobs").json["items"]) == 1


def test_next_version_of_a_paused_job_is_paused(api: Api) -> None:
    register(api)
    job = created(api, interval())
    api.post(f"/jobs/{job['job_id']}/pause")
    new = api.put(f"/jobs/{job['job_id']}", {"every": "20s"}).json
    assert (new["status"], new["next_run_at"], new["every"]) == ("PAUSED", None, "20s")
    assert new["paused_at"] is not None
    resumed = api.post(f"/jobs/{new['job_id']}/resume").json
    assert (resumed["status"], resumed["paused_at"]) == ("ACTIVE", None)
    assert resumed["next_run_at"] is not None
