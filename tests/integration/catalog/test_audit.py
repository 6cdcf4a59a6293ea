"""The audit log: one entry for each change of the catalog and the keys, in the transaction of the change."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel import audit
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.integration.catalog.things import EACH_RESOURCE, make
from tests.integration.client import Api, pointers, problem, read_all_pages
from tests.integration.command_line import flask_app
from tests.integration.registered import SCHEMA, http_endpoint


def entries(api: Api, **query: Any) -> list[dict[str, Any]]:
    response = api.get("/audit", **query)
    assert response.status_code == 200, response.get_data(as_text=True)
    found: list[dict[str, Any]] = response.json["items"]
    return found


def changes(api: Api) -> list[dict[str, Any]]:
    """Return all entries but the entries of API keys, oldest first."""
    return [entry for entry in entries(api)[::-1] if entry["resource_type"] != "api_key"]


@EACH_RESOURCE
def test_each_change_writes_one_entry_with_the_hash_of_the_previous_state(
    api: Api, path: str, one: Any, two: Any
) -> None:
    make(api, path, one)
    request_id = api.put(f"{path}/x", two, headers={"X-Request-ID": "req-of-mine"}).headers["X-Request-ID"]
    api.delete(f"{path}/x")
    made, changed, deleted = changes(api)
    type_ = path.strip("/").replace("-", "_").removesuffix("s")
    for entry, action in ((made, "create"), (changed, "replace"), (deleted, "delete")):
        assert (entry["action"], entry["resource_type"], entry["resource"]) == (action, type_, "x")
        assert (entry["actor_name"], entry["actor_id"]) == ("test", api.key.split("_")[1])
    assert changed["request_id"] == request_id == "req-of-mine"
    assert made["before_hash"] is None
    assert deleted["after_hash"] is None
    assert changed["before_hash"] == made["after_hash"] != changed["after_hash"] == deleted["before_hash"]


@EACH_RESOURCE
def test_refused_request_writes_no_entry(api: Api, path: str, one: Any, two: Any) -> None:
    make(api, path, one)
    assert api.post(path, one | {"name": "x"}).status_code == 409
    assert api.put(f"{path}/x", two, headers={"If-Match": '"old"'}).status_code == 412
    assert api.put(f"{path}/nope", {k: v for k, v in two.items() if k != "name"}).status_code == 404
    assert api.delete(f"{path}/nope").status_code == 404
    assert [entry["action"] for entry in changes(api)] == ["create"]


def test_refused_deletion_writes_no_entry(api: Api) -> None:
    make(api, "/configs", {"values": {}})
    api.post("/endpoints", http_endpoint(config="x"))
    problem(api.delete("/configs/x"), 409, "CONFLICT")
    assert [entry["action"] for entry in changes(api)] == ["create", "create"]


def test_change_without_an_audit_entry_is_rolled_back(api: Api, database: Database) -> None:
    make(api, "/configs", {"values": {"a": 1}})
    database.fetch(text("ALTER TABLE audit_log ADD CONSTRAINT never CHECK (action <> 'replace')"))
    problem(api.put("/configs/x", {"values": {"a": 2}}), 500, "INTERNAL_ERROR")
    assert api.get("/configs/x").json["values"] == {"a": 1}


def test_equal_configs_have_equal_hashes_and_equal_secrets_do_not(api: Api) -> None:
    for name in ("a", "b"):
        api.post(
            "/configs",
            {"name": name, "values": {"x": 1, "y": [1.5, None]} if name == "a" else {"y": [1.5, None], "x": 1}},
        )
        api.post("/secrets", {"name": name, "value": "hunter2"})
    hashes = {(e["resource_type"], e["resource"]): e["after_hash"] for e in changes(api)}
    assert hashes["config", "a"] == hashes["config", "b"]
    assert audit.digest({"x": 1, "y": 2}) == audit.digest({"y": 2, "x": 1})
    assert hashes["secret", "a"] != hashes["secret", "b"]


def test_log_contains_no_values(api: Api, database: Database) -> None:
    api.post("/secrets", {"name": "x", "value": "hunter2"})
    api.put("/secrets/x", {"value": "hunter3"})
    api.post("/configs", {"name": "x", "values": {"a": "hunter4"}})
    rows = database.fetch(text("SELECT CAST(row_to_json(a) AS TEXT) AS row FROM audit_log a"))
    assert "hunter" not in json.dumps([row.row for row in rows])


def test_log_is_filtered_by_actor_action_resource_and_time(api: Api, app: Any, database: Database) -> None:
    other_key = api_keys.create(database, "other", [Scope.ADMIN], None)
    other = Api(app, other_key)
    make(api, "/configs", {"values": {}})
    make(other, "/payload-specs", {"schema": SCHEMA})
    other.put("/configs/x", {"values": {"a": 1}})

    def found(**query: Any) -> list[tuple[str, str]]:
        return [(entry["action"], entry["resource_type"]) for entry in entries(api, **query)]

    both = [("replace", "config"), ("create", "payload_spec")]
    assert found(actor="other") == found(actor=other_key.split("_")[1]) == both
    assert found(action="replace") == [("replace", "config")]
    assert found(resource_type="config") == [("replace", "config"), ("create", "config")]
    assert found(resource="x", action="create") == [("create", "payload_spec"), ("create", "config")]
    assert found(resource="nope") == []
    times = [entry["occurred_at"] for entry in entries(api)]
    assert [e["occurred_at"] for e in entries(api, after=times[1])] == times[:2]
    assert [e["occurred_at"] for e in entries(api, before=times[1])] == times[2:]
    for wrong in ({"action": "drop"}, {"resource_type": "job"}, {"after": "yesterday"}, {"who": "x"}, {"cursor": "x"}):
        assert pointers(problem(api.get("/audit", **wrong), 400, "INVALID_REQUEST")) == list(wrong)


def test_log_is_paged_newest_first(api: Api) -> None:
    for number in range(7):
        api.post("/configs", {"name": f"c-{number}", "values": {}})
    assert read_all_pages(api, "/audit", "resource", resource_type="config") == [
        f"c-{number}" for number in range(6, -1, -1)
    ]


@pytest.mark.parametrize("scope", [Scope.READ, Scope.JOBS_WRITE])
def test_only_an_administrator_reads_the_log(app: Any, database: Database, scope: Scope) -> None:
    problem(Api(app, api_keys.create(database, "other", [scope], None)).get("/audit"), 403, "FORBIDDEN")


def test_key_changes_name_the_user_of_the_command_line(api: Api, database_url: str) -> None:
    key = flask_app(database_url, "api-keys", "create", "ci", "--scopes", "read", "--expires", "90d").stdout.strip()
    key_id = key.split("_")[1]
    for _ in range(2):
        assert flask_app(database_url, "api-keys", "revoke", key_id, "--yes").exit_code == 0
    revoked, made = entries(api, resource=key_id)
    assert (made["action"], revoked["action"]) == ("create", "revoke")
    assert made["after_hash"] == revoked["before_hash"]
    for entry in (made, revoked):
        assert entry["resource_type"] == "api_key"
        assert entry["actor_name"].startswith("cli:")
        assert (entry["actor_id"], entry["request_id"]) == (None, None)


def test_entry_has_the_time_of_the_change(api: Api) -> None:
    make(api, "/configs", {"values": {}})
    (entry,) = entries(api, resource_type="config")
    assert abs(datetime.now(UTC) - datetime.fromisoformat(entry["occurred_at"])) < timedelta(minutes=5)
