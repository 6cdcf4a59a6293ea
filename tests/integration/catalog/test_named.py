"""Payload specs, configs and secrets: created, read, replaced and deleted. A secret is never shown."""

from typing import Any

import pytest
from sqlalchemy import text

from app.catalog.crypto import SecretBox
from app.kernel.config import Settings
from app.kernel.db import Database
from tests.integration.client import SECRET_KEY, Api, administrator, pointers, problem, running
from tests.integration.registered import SCHEMA, register

VALUES = {"base": "https://api.example.com", "n": 5, "f": 1.5, "deep": {"list": [1, None, True, "ü€😀"]}}


@pytest.mark.parametrize(
    ("path", "field", "one", "two"),
    [
        ("/payload-specs", "schema", SCHEMA, {"type": "object"}),
        ("/configs", "values", VALUES, {}),
    ],
)
def test_payload_specs_and_configs_are_created_read_replaced_and_deleted(
    api: Api, path: str, field: str, one: Any, two: Any
) -> None:
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


def test_numbers_are_returned_unchanged(api: Api) -> None:
    numbers = [0, -1, 10**38 - 1, 1 - 10**38, 0.1, 1e38, -1e40, 1e300, 5e-324, 1.7976931348623157e308]
    assert api.post("/configs", {"name": "numbers", "values": {"n": numbers}}).status_code == 201
    found = api.get("/configs/numbers").json["values"]
    assert found == {"n": numbers}
    assert api.put("/configs/numbers", {"values": found}).status_code == 200


def test_secret_is_never_shown(api: Api, database: Database) -> None:
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


def test_without_an_encryption_key_only_secrets_are_503(database_url: str) -> None:
    with running(Settings(database_url=database_url)) as app:
        api = administrator(app)
        for method, path in (
            ("POST", "/secrets"),
            ("GET", "/secrets"),
            ("PUT", "/secrets/x"),
            ("DELETE", "/secrets/x"),
        ):
            error = problem(api.send(method, path, json={"name": "x", "value": "value-v"}), 503, "SERVICE_UNAVAILABLE")
            assert "TE_SECRET_ENCRYPTION_KEY" in error["message"]
            assert not error["retryable"]
        assert api.post("/configs", {"name": "c", "values": {}}).status_code == 201
        register(api)


def revision(database: Database) -> int:
    number: int = database.fetch(text("SELECT revision FROM catalog_revision WHERE id = 'catalog'"))[0].revision
    return number


def test_each_change_of_a_config_or_secret_increments_the_revision(api: Api, database: Database) -> None:
    changes = [
        ("POST", "/configs", {"name": "c", "values": {}}, 201),
        ("PUT", "/configs/c", {"values": {"a": 1}}, 200),
        ("DELETE", "/configs/c", None, 204),
        ("POST", "/secrets", {"name": "s", "value": "value-v"}, 201),
        ("PUT", "/secrets/s", {"value": "value-w"}, 200),
        ("DELETE", "/secrets/s", None, 204),
    ]
    for method, path, body, status in changes:
        before = revision(database)
        assert api.send(method, path, json=body).status_code == status
        assert revision(database) == before + 1
    before = revision(database)
    assert api.put("/configs/nope", {"values": {}}).status_code == 404
    assert revision(database) == before
