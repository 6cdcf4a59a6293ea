"""Pause of a queue: POST /queues/{queue}/pause and /resume, and every answer that shows the pause."""

from typing import Any

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests.integration.client import Api, problem, services
from tests.integration.registered import created, one_shot, register
from tests.target_rules import current_rules


def paused(api: Api) -> dict[str, Any]:
    return {item["queue"]: item["paused_at"] for item in api.get("/queues").json["items"]}


def test_queue_is_paused_until_resumed(api: Api, database: Database) -> None:
    register(api)
    waits = created(api, one_shot("waits", queue="bulk"))["execution"]["execution_id"]
    before = current_rules(database)
    assert [queue["queue"] for queue in api.get("/health/operations").json["unserved_queues"]] == ["bulk"]

    found = api.post("/queues/bulk/pause").json
    assert (found["queue"], found["due"], found["workers"]) == ("bulk", 1, 0)
    assert found["paused_at"] is not None
    assert found["paused_by"] == "test"
    assert api.post("/queues/bulk/pause").json["paused_at"] == found["paused_at"], "a repeated pause changes nothing"
    during = current_rules(database)
    assert (during.revision, during.paused_queues) == (before.revision + 1, {"bulk"}), "the revision changes once"
    assert paused(api) == {"bulk": found["paused_at"]}
    operations = api.get("/health/operations").json
    assert operations["paused_queues"] == [{"queue": "bulk", "paused_at": found["paused_at"], "paused_by": "test"}]
    assert operations["unserved_queues"] == [], "a paused queue is not unserved"
    explained = api.get(f"/executions/{waits}/explain").json
    assert (explained["reason"], explained["since"]) == ("QUEUE_PAUSED", found["paused_at"])
    assert "its queue 'bulk' is paused" in explained["explanation"]

    resumed = api.post("/queues/bulk/resume").json
    assert (resumed["paused_at"], resumed["paused_by"]) == (None, None)
    assert api.post("/queues/bulk/resume").status_code == 200, "a repeated resume changes nothing"
    after = current_rules(database)
    assert (after.revision, after.paused_queues) == (during.revision + 1, frozenset())
    assert paused(api) == {"bulk": None}
    assert api.get(f"/executions/{waits}/explain").json["reason"] == "NO_WORKER"
    entries = api.get("/audit", resource_type="queue").json["items"]
    assert [(entry["action"], entry["resource"], entry["actor_name"]) for entry in entries] == [
        ("flow", "bulk", "test")
    ] * 2
    assert entries[0]["before_hash"] == entries[1]["after_hash"] != entries[1]["before_hash"]


def test_paused_queue_without_endpoints_is_listed(api: Api) -> None:
    register(api)
    assert api.send("PATCH", "/endpoints/target", json={"queue": "own"}).status_code == 200
    assert api.post("/queues/own/pause").status_code == 200
    assert api.send("PATCH", "/endpoints/target", json={"queue": None}).status_code == 200
    assert list(paused(api)) == ["own"]
    assert api.post("/queues/own/resume").status_code == 200
    assert paused(api) == {}


def test_pause_needs_the_scope_admin_and_an_existing_queue(api: Api, database: Database) -> None:
    register(api)
    for verb in ("pause", "resume"):
        error = problem(api.post(f"/queues/nope/{verb}"), 404, "QUEUE_NOT_FOUND")
        assert "GET /queues" in error["message"]
    created(api, one_shot("waits", queue="bulk"))
    for scope in (Scope.READ, Scope.JOBS_WRITE):
        other = Api(api.app, api_keys.create(services(api.app).database, scope, [scope], None))
        problem(other.post("/queues/bulk/pause"), 403, "FORBIDDEN")
    assert current_rules(database).paused_queues == frozenset()
