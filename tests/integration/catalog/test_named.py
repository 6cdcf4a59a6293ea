"""Payload specs, configs and secrets."""

from typing import Any

import pytest
from sqlalchemy import text

from app.catalog.crypto import SecretBox
from app.config import Settings
from app.db import Database
from tests import rows
from tests.integration.client import SECRET_KEY, Api, administrator, pointers, problem, running
from tests.integration.registered import INPUT, SCHEMA, created, cron, http_endpoint, one_shot, register, register_all

VALUES = {"base": "https://api.example.com", "n": 5, "f": 1.5, "deep": {"list": [1, None, True, "ü€😀"]}}


@pytest.mark.parametrize(
    ("path", "field", "one", "two"),
    [
        ("/payload-specs", "schema", SCHEMA, {"type": "object"}),
        ("/configs", "values", VALUES, {}),
    ],
)
def test_create_get_replace_delete(api: Api, path: str, field: str, one: Any, two: Any) -> None:
    response = api.post(path, {"name": "a-1", field: one})
    assert response.status_code == 201
    assert response.json == api.get(f"{path}/a-1").json
    assert set(response.json) == {"name", field, "created_at", "updated_at"}
    assert (response.json["name"], response.json[field]) == ("a-1", one)
    assert response.json["created_at"] == response.json["updated_at"]
    assert response.json["created_at"].endswith("Z")

    problem(api.post(path, {"name": "a-1", field: two}), 409, "CONFLICT")
    changed = api.put(f"{path}/a-1", {field: two})
    assert changed.status_code == 200
    assert changed.json == api.get(f"{path}/a-1").json
    assert changed.json[field] == two
    assert changed.json["updated_at"] > changed.json["created_at"] == response.json["created_at"]
    assert api.put(f"{path}/a-1", {"name": "a-1", field: two}).status_code == 200
    error = problem(api.put(f"{path}/a-1", {"name": "b", field: two}), 400, "INVALID_REQUEST")
    assert pointers(error) == ["/name"]

    gone = api.delete(f"{path}/a-1")
    assert (gone.status_code, gone.data) == (204, b"")
    assert api.get(f"{path}/a-1").status_code == 404
    assert api.post(path, {"name": "a-1", field: one}).status_code == 201


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ("object", "/schema"),
        ([], "/schema"),
        (None, "/schema"),
        ({"type": "banana"}, "/schema/type"),
        ({"properties": {"a/b": {"minimum": "1"}}}, "/schema/properties/a~1b/minimum"),
        ({"$ref": "http://127.0.0.1:1/schema.json"}, "/schema/$ref"),
        ({"$ref": "#/nowhere"}, "/schema/$ref"),
        ({"$ref": "#"}, "/schema"),
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "/schema/$schema"),
        ({"properties": {"a": {"pattern": "("}}}, "/schema/properties/a/pattern"),
        ({"properties": {"a": {"pattern": "(?=a)"}}}, "/schema/properties/a/pattern"),
        ({"description": "x" * 140_000}, "/schema"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(shared_api: Api, schema: Any, where: str) -> None:
    error = problem(shared_api.post("/payload-specs", {"name": "x", "schema": schema}), 422, "INVALID_SCHEMA")
    assert pointers(error)[0] == where


def test_numbers_come_back_as_they_were_sent(api: Api) -> None:
    numbers = [0, -1, 10**38 - 1, 1 - 10**38, 0.1, 1e38, -1e40, 1e300, 5e-324, 1.7976931348623157e308]
    assert api.post("/configs", {"name": "numbers", "values": {"n": numbers}}).status_code == 201
    found = api.get("/configs/numbers").json["values"]
    assert found == {"n": numbers}
    assert api.put("/configs/numbers", {"values": found}).status_code == 200


def test_a_secret_is_never_shown(api: Api, database: Database) -> None:
    shown = [
        api.post("/secrets", {"name": "email_api_key", "value": "sk-live-abc123"}),
        api.get("/secrets/email_api_key"),
        api.get("/secrets"),
        api.post("/secrets", {"name": "email_api_key", "value": "sk-live-abc123"}),
        api.put("/secrets/email_api_key", {"value": "sk-live-def456"}),
        api.put("/secrets/email_api_key", {"value": "sk-live-def456", "other": 1}),
    ]
    assert [response.status_code for response in shown] == [201, 200, 200, 409, 200, 400]
    assert set(shown[0].json) == {"name", "created_at", "updated_at"}
    for response in shown:
        assert "sk-live" not in response.get_data(as_text=True)
    (row,) = database.fetch(text("SELECT encrypted_value FROM secrets"))
    assert b"sk-live" not in bytes(row.encrypted_value)
    assert SecretBox.from_setting(SECRET_KEY).decrypt(row.encrypted_value) == "sk-live-def456"
    assert api.delete("/secrets/email_api_key").status_code == 204


def test_without_a_key_secrets_are_503_and_all_else_works(database_url: str) -> None:
    with running(Settings(database_url=database_url)) as app:
        api = administrator(app)
        for method, path in (
            ("POST", "/secrets"),
            ("GET", "/secrets"),
            ("PUT", "/secrets/x"),
            ("DELETE", "/secrets/x"),
        ):
            error = problem(api.send(method, path, json={"name": "x", "value": "v"}), 503, "SERVICE_UNAVAILABLE")
            assert "TE_SECRET_ENCRYPTION_KEY" in error["message"]
            assert not error["retryable"]
        assert api.post("/configs", {"name": "c", "values": {}}).status_code == 201
        register(api)


def revision(database: Database) -> int:
    number: int = database.fetch(text("SELECT revision FROM catalog_revision"))[0].revision
    return number


def test_each_change_of_a_config_or_secret_moves_the_revision(api: Api, database: Database) -> None:
    changes = [
        ("POST", "/configs", {"name": "c", "values": {}}, 201),
        ("PUT", "/configs/c", {"values": {"a": 1}}, 200),
        ("DELETE", "/configs/c", None, 204),
        ("POST", "/secrets", {"name": "s", "value": "v"}, 201),
        ("PUT", "/secrets/s", {"value": "w"}, 200),
        ("DELETE", "/secrets/s", None, 204),
    ]
    for method, path, body, status in changes:
        before = revision(database)
        assert api.send(method, path, json=body).status_code == status
        assert revision(database) == before + 1
    before = revision(database)
    assert api.put("/configs/nope", {"values": {}}).status_code == 404
    assert revision(database) == before


EVERY = {"endpoint": "target", "trigger": "INTERVAL", "every": "1h", "input": INPUT}
THINGS = ["/payload-specs/spec", "/configs/config", "/secrets/token"]


@pytest.mark.parametrize("path", THINGS)
def test_what_a_live_endpoint_needs_stays(api: Api, path: str) -> None:
    register_all(api)
    error = problem(api.delete(path), 409, "CONFLICT")
    assert "endpoint target" in error["message"]
    assert [detail["message"] for detail in error["details"]] == ["needed by endpoint target"]
    assert api.get(path).status_code == 200
    assert api.delete("/endpoints/target").status_code == 204
    assert api.delete(path).status_code == 204


@pytest.mark.parametrize(
    "job", [one_shot("k"), one_shot("k", trigger="DELAYED", run_at="2090-01-01T00:00:00Z"), cron()]
)
@pytest.mark.parametrize("path", THINGS)
def test_what_an_unfinished_job_needs_stays(api: Api, path: str, job: dict[str, Any]) -> None:
    """The endpoint has moved on, the job has not."""
    register_all(api)
    made = created(api, job)
    changed = {key: value for key, value in http_endpoint().items() if key != "name"}
    assert api.put("/endpoints/target", changed).status_code == 200
    assert f"job {made['job_id']}" in problem(api.delete(path), 409, "CONFLICT")["message"]
    assert api.post(f"/jobs/{made['job_id']}/cancel").status_code == 200
    assert api.delete(path).status_code == 204


@pytest.mark.parametrize("job", [cron(), EVERY], ids=["cron", "interval"])
@pytest.mark.parametrize("is_paused", [False, True], ids=["active", "paused"])
def test_what_a_repeating_job_needs_stays_until_it_is_retired(api: Api, job: dict[str, Any], is_paused: bool) -> None:
    """Also between two runs, when no execution is unfinished; and for the version that the job was made with."""
    register_all(api)
    job_id = created(api, job)["job_id"]
    if is_paused:
        assert api.post(f"/jobs/{job_id}/pause").status_code == 200
    details = problem(api.delete("/endpoints/target"), 409, "CONFLICT")["details"]
    assert {"pointer": "", "message": f"needed by job {job_id}"} in details
    changed = {key: value for key, value in http_endpoint().items() if key != "name"}
    assert api.put("/endpoints/target", changed).status_code == 200
    for path in THINGS:
        assert f"job {job_id}" in problem(api.delete(path), 409, "CONFLICT")["message"]
    assert api.post(f"/jobs/{job_id}/cancel").status_code == 200
    for path in (*THINGS, "/endpoints/target"):
        assert api.delete(path).status_code == 204


def test_a_repeating_job_that_was_updated_needs_only_what_its_new_version_does(api: Api) -> None:
    register_all(api)
    job_id = created(api, cron())["job_id"]
    changed = {key: value for key, value in http_endpoint().items() if key != "name"}
    assert api.put("/endpoints/target", changed).status_code == 200
    problem(api.delete("/configs/config"), 409, "CONFLICT")
    update = {key: value for key, value in cron().items() if key not in {"endpoint", "trigger"}}
    response = api.put(f"/jobs/{job_id}", update)
    assert response.status_code == 200, response.get_data(as_text=True)
    for path in THINGS:
        assert api.delete(path).status_code == 204


def test_finished_work_needs_nothing(api: Api, database: Database) -> None:
    register_all(api)
    job = created(api, one_shot("k"))
    rows.set_status(database, job["job_id"], "FAILED")
    database.fetch(text("UPDATE jobs SET status = 'RETIRED', retired_at = now()"))
    for path in ("/endpoints/target", *THINGS):
        assert api.delete(path).status_code == 204


@pytest.mark.parametrize("status", ["QUEUED", "PENDING", "RETRYING", "RUNNING"])
def test_an_unfinished_execution_of_any_status_counts(api: Api, database: Database, status: str) -> None:
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


def test_a_secret_is_found_in_templates_not_in_text(api: Api) -> None:
    """`token` is a part of another name, and appears as plain text."""
    for name in ("token", "token2"):
        api.post("/secrets", {"name": name, "value": "v"})
    spec = {"url": "http://127.0.0.1:9/token", "method": "POST", "headers": {"A": "token {{ secret.token2 }}"}}
    register(api, spec=spec)
    assert api.delete("/secrets/token").status_code == 204
    problem(api.delete("/secrets/token2"), 409, "CONFLICT")


def test_a_stalling_pattern_costs_no_time(api: Api) -> None:
    """With Python's re this input takes years."""
    schema = {"properties": {"user_id": {"type": "string", "pattern": "^(a+)+$"}}}
    assert api.post("/payload-specs", {"name": "evil", "schema": schema}).status_code == 201
    register(api, payload_spec="evil")
    problem(api.post("/jobs", one_shot("k", input={"user_id": "a" * 10_000 + "!"})), 422, "INPUT_VALIDATION_FAILED")
    created(api, one_shot("k", input={"user_id": "a" * 10_000}))


def test_a_stalling_schema_is_cut_off(api: Api) -> None:
    """Thirty references that each double: the budget ends it, and the answer is the client's."""
    parts: dict[str, Any] = {"d0": {"type": "string"}}
    for number in range(1, 31):
        parts[f"d{number}"] = {"allOf": [{"$ref": f"#/$defs/d{number - 1}"}] * 2}
    schema = {"$defs": parts, "properties": {"user_id": {"$ref": "#/$defs/d30"}}}
    assert api.post("/payload-specs", {"name": "evil", "schema": schema}).status_code == 201
    register(api, payload_spec="evil")
    error = problem(api.post("/jobs", one_shot("k", input=INPUT)), 422, "INPUT_VALIDATION_FAILED")
    assert "too long" in error["message"]
