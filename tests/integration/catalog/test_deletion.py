"""Deletion from the catalog: refused while a live endpoint or an unfinished job needs the resource."""

from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from tests import rows
from tests.integration.client import Api, problem
from tests.integration.registered import INPUT, created, cron, http_endpoint, one_shot, register, register_all

EVERY = {"endpoint": "target", "trigger": "INTERVAL", "every": "1h", "input": INPUT}
RESOURCES = ["/payload-specs/spec", "/configs/config", "/secrets/token"]


@pytest.mark.parametrize("path", RESOURCES)
def test_resource_of_a_live_endpoint_is_not_deleted(api: Api, path: str) -> None:
    register_all(api)
    error = problem(api.delete(path), 409, "CONFLICT")
    assert "endpoint target" in error["message"]
    assert [detail["message"] for detail in error["details"]] == ["In use by endpoint target."]
    assert api.get(path).status_code == 200
    assert api.delete("/endpoints/target").status_code == 204
    assert api.delete(path).status_code == 204


@pytest.mark.parametrize(
    "job", [one_shot("k"), one_shot("k", trigger="DELAYED", run_at="2090-01-01T00:00:00Z"), cron()]
)
@pytest.mark.parametrize("path", RESOURCES)
def test_resource_of_an_unfinished_job_is_not_deleted(api: Api, path: str, job: dict[str, Any]) -> None:
    """The endpoint has a newer version that does not need the resource; the version of the job does."""
    register_all(api)
    made = created(api, job)
    changed = {key: value for key, value in http_endpoint().items() if key != "name"}
    assert api.put("/endpoints/target", changed).status_code == 200
    assert f"job {made['job_id']}" in problem(api.delete(path), 409, "CONFLICT")["message"]
    assert api.post(f"/jobs/{made['job_id']}/cancel").status_code == 200
    assert api.delete(path).status_code == 204


@pytest.mark.parametrize("job", [cron(), EVERY], ids=["cron", "interval"])
@pytest.mark.parametrize("is_paused", [False, True], ids=["active", "paused"])
def test_resource_of_a_repeating_job_is_deleted_only_after_the_job_is_retired(
    api: Api, job: dict[str, Any], is_paused: bool
) -> None:
    """The resource is needed between two runs too, by the endpoint version with which the job was created."""
    register_all(api)
    job_id = created(api, job)["job_id"]
    if is_paused:
        assert api.post(f"/jobs/{job_id}/pause").status_code == 200
    details = problem(api.delete("/endpoints/target"), 409, "CONFLICT")["details"]
    assert {"pointer": "", "message": f"In use by job {job_id}."} in details
    changed = {key: value for key, value in http_endpoint().items() if key != "name"}
    assert api.put("/endpoints/target", changed).status_code == 200
    for path in RESOURCES:
        assert f"job {job_id}" in problem(api.delete(path), 409, "CONFLICT")["message"]
    assert api.post(f"/jobs/{job_id}/cancel").status_code == 200
    for path in (*RESOURCES, "/endpoints/target"):
        assert api.delete(path).status_code == 204


def test_updated_repeating_job_needs_only_the_resources_of_its_new_version(api: Api) -> None:
    register_all(api)
    job_id = created(api, cron())["job_id"]
    changed = {key: value for key, value in http_endpoint().items() if key != "name"}
    assert api.put("/endpoints/target", changed).status_code == 200
    problem(api.delete("/configs/config"), 409, "CONFLICT")
    update = {key: value for key, value in cron().items() if key not in {"endpoint", "trigger"}}
    response = api.put(f"/jobs/{job_id}", update)
    assert response.status_code == 200, response.get_data(as_text=True)
    for path in RESOURCES:
        assert api.delete(path).status_code == 204


def test_finished_job_needs_no_resource(api: Api, database: Database) -> None:
    register_all(api)
    job = created(api, one_shot("k"))
    rows.set_status(database, job["job_id"], "FAILED")
    database.fetch(text("UPDATE jobs SET status = 'RETIRED', retired_at = now()"))
    for path in ("/endpoints/target", *RESOURCES):
        assert api.delete(path).status_code == 204


@pytest.mark.parametrize("status", ["QUEUED", "PENDING", "RETRYING", "RUNNING"])
def test_unfinished_execution_of_any_status_blocks_the_deletion(api: Api, database: Database, status: str) -> None:
    register_all(api)
    job = created(api, one_shot("k"))
    rows.set_status(database, job["job_id"], status)
    database.fetch(text("UPDATE jobs SET status = 'RETIRED', retired_at = now()"))
    problem(api.delete("/endpoints/target"), 409, "CONFLICT")
    register(api, "unrelated")
    database.fetch(text("UPDATE endpoints SET deleted_at = now(), config_ref = NULL WHERE name = 'target'"))
    problem(api.delete("/configs/config"), 409, "CONFLICT")
    rows.set_status(database, job["job_id"], "SUCCESS")
    assert api.delete("/configs/config").status_code == 204


def test_secret_is_needed_by_a_template_but_not_by_equal_text(api: Api) -> None:
    """`token` is a prefix of another secret's name, and plain text in the spec."""
    for name in ("token", "token2"):
        api.post("/secrets", {"name": name, "value": "value-v"})
    spec = {"url": "http://127.0.0.1:9/token", "method": "POST", "headers": {"A": "token {{ secret.token2 }}"}}
    register(api, spec=spec)
    assert api.delete("/secrets/token").status_code == 204
    problem(api.delete("/secrets/token2"), 409, "CONFLICT")
