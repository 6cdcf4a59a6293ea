"""Flow fields of an endpoint, which change without a new version: queue, priority, limits, breaker and pause."""

from typing import Any

import pytest
from sqlalchemy import text
from werkzeug.test import TestResponse

from app.kernel.db import Database
from tests.cases import each_case
from tests.integration.client import Api, pointers, problem
from tests.integration.registered import http_endpoint, one_shot, register, register_all

RATE = {"count": 100, "per": "1s", "burst": 20}
LIMITS = {
    "max_in_flight": 20,
    "rate": RATE,
    "per_key": {"key": "{{input.tenant}}", "rate": {"count": 1000, "per": "1h", "window": "sliding"}},
}
BREAKER = {"failure_ratio": 0.25, "min_results": 5, "window": "2m", "open_for": "500s"}
FLOW: dict[str, Any] = {"queue": "bulk", "priority": 0, "limits": LIMITS, "breaker": BREAKER}
DEFAULT: dict[str, Any] = {"queue": None, "priority": 128, "limits": None, "breaker": None}


def patch(api: Api, body: Any, path: str = "/endpoints/target", **kwargs: Any) -> TestResponse:
    return api.send("PATCH", path, json=body, **kwargs)


def flow_of(endpoint: Any) -> dict[str, Any]:
    return {name: endpoint[name] for name in FLOW}


def flow_revision(database: Database) -> int:
    number: int = database.fetch(text("SELECT revision FROM catalog_revision WHERE id = 'flow'"))[0].revision
    return number


def actions(api: Api) -> list[str]:
    return [entry["action"] for entry in api.get("/audit", resource_type="endpoint").json["items"]]


def test_new_target_increments_the_flow_revision(api: Api, database: Database) -> None:
    """Workers reload the rules: the breaker of the old target may hold the endpoint back until its next probe."""
    register(api)
    before = flow_revision(database)
    definition = http_endpoint()
    spec = definition["spec"] | {"url": "https://elsewhere.example.com/"}
    assert api.put("/endpoints/target", definition | {"spec": spec}).status_code == 200
    assert flow_revision(database) == before + 1
    policy = {"max_attempts": 2}
    assert api.put("/endpoints/target", definition | {"spec": spec, "retry_policy": policy}).status_code == 200
    assert flow_revision(database) == before + 1


def test_patch_changes_the_flow_but_not_the_version(api: Api, database: Database) -> None:
    register(api)
    first = api.get("/endpoints/target")
    assert flow_of(first.json) == DEFAULT
    assert first.json["queue_in_effect"] == "http"
    before = flow_revision(database)

    changed = patch(api, FLOW)
    assert (changed.status_code, flow_of(changed.json), changed.json["version"]) == (200, FLOW, 1)
    assert changed.json["queue_in_effect"] == "bulk"
    assert changed.headers["ETag"] != first.headers["ETag"]
    assert api.get("/endpoints/target").json == changed.json
    assert flow_revision(database) == before + 1
    # A repeated patch changes nothing.
    assert patch(api, FLOW).headers["ETag"] == changed.headers["ETag"]
    assert patch(api, {}).json == changed.json
    assert actions(api) == ["flow", "create"]

    # Queue and priority leave the flow revision unchanged: workers read both from the rows of executions.
    assert flow_of(patch(api, {"queue": None, "priority": None}).json) == FLOW | {"queue": None, "priority": 128}
    assert flow_revision(database) == before + 1
    assert flow_of(patch(api, {"limits": None, "breaker": "off"}).json) == DEFAULT | {"breaker": "off"}
    assert flow_revision(database) == before + 2


def test_patch_with_an_outdated_etag_is_refused(api: Api) -> None:
    register(api)
    first = api.get("/endpoints/target").headers["ETag"]
    second = patch(api, {"priority": 1}, headers={"If-Match": first}).headers["ETag"]
    problem(patch(api, {"priority": 2}, headers={"If-Match": first}), 412, "PRECONDITION_FAILED")
    problem(api.put("/endpoints/target", http_endpoint(), headers={"If-Match": first}), 412, "PRECONDITION_FAILED")
    assert api.put("/endpoints/target", http_endpoint(), headers={"If-Match": second}).status_code == 200
    problem(patch(api, {}, path="/endpoints/nope"), 404, "ENDPOINT_NOT_FOUND")


def test_put_keeps_absent_flow_fields(api: Api) -> None:
    register(api, **FLOW)
    assert flow_of(api.get("/endpoints/target").json) == FLOW
    kept = api.put("/endpoints/target", http_endpoint()).json
    assert (flow_of(kept), kept["version"]) == (FLOW, 2)
    changed = api.put("/endpoints/target", http_endpoint(limits=None, priority=200)).json
    assert flow_of(changed) == FLOW | {"limits": None, "priority": 200}


def test_endpoint_registered_again_has_the_default_flow(api: Api, database: Database) -> None:
    register(api, **FLOW)
    assert api.post("/endpoints/target/pause").status_code == 200
    before = flow_revision(database)
    assert api.delete("/endpoints/target").status_code == 204
    assert flow_revision(database) == before + 1
    register(api)
    found = api.get("/endpoints/target").json
    assert (flow_of(found), found["paused_at"]) == (DEFAULT, None)


def test_paused_endpoint_shows_its_pause_and_accepts_jobs(api: Api, database: Database) -> None:
    register(api)
    before = flow_revision(database)
    paused = api.post("/endpoints/target/pause")
    assert paused.json["paused_at"] is not None
    assert api.post("/endpoints/target/pause").json == paused.json
    assert flow_revision(database) == before + 1
    assert api.post("/jobs", one_shot("a")).status_code == 201
    resumed = api.post("/endpoints/target/resume")
    assert (resumed.json["paused_at"], resumed.json["version"]) == (None, 1)
    assert api.post("/endpoints/target/resume").json == resumed.json
    assert flow_revision(database) == before + 2
    assert len({each.headers["ETag"] for each in (paused, resumed, api.get("/endpoints/target"))}) == 2
    assert actions(api) == ["flow", "flow", "create"]
    for verb in ("pause", "resume"):
        problem(api.post(f"/endpoints/nope/{verb}"), 404, "ENDPOINT_NOT_FOUND")


@each_case(
    ("body", "pointer", "words"),
    [
        ({"queue": "Bulk"}, "/queue", "lower-case"),
        ({"queue": "bulk.DQ"}, "/queue", "lower-case"),
        ({"queue": "bulk\n"}, "/queue", "lower-case"),
        ({"queue": "q" * 64}, "/queue", "63"),
        ({"queue": 1}, "/queue", "string"),
        ({"priority": 256}, "/priority", "255"),
        ({"priority": -1}, "/priority", "0"),
        ({"priority": True}, "/priority", "whole number"),
        ({"priority": 1.5}, "/priority", "whole number"),
        ({"limits": {}}, "/limits", "At least one"),
        ({"limits": []}, "/limits", "object"),
        ({"limits": {"max": 1}}, "/limits/max", "Unknown"),
        ({"limits": {"max_in_flight": 0}}, "/limits/max_in_flight", "pause it"),
        ({"limits": {"max_in_flight": 10**12}}, "/limits/max_in_flight", "1000000"),
        ({"limits": {"max_in_flight": True}}, "/limits/max_in_flight", "whole number"),
        ({"limits": {"rate": RATE | {"count": 0}}}, "/limits/rate/count", "pause it"),
        ({"limits": {"rate": RATE | {"count": -1}}}, "/limits/rate/count", "pause it"),
        ({"limits": {"rate": RATE | {"count": 1.5}}}, "/limits/rate/count", "whole number"),
        ({"limits": {"rate": {"count": 1}}}, "/limits/rate/per", "Required"),
        ({"limits": {"rate": RATE | {"per": "1 fortnight"}}}, "/limits/rate/per", "from 1s to 1d: a whole number and"),
        ({"limits": {"rate": RATE | {"per": "999ms"}}}, "/limits/rate/per", "from 1s to 1d"),
        ({"limits": {"rate": RATE | {"per": 1000}}}, "/limits/rate/per", "from 1s to 1d"),
        ({"limits": {"rate": RATE | {"per": "25h"}}}, "/limits/rate/per", "from 1s to 1d"),
        ({"limits": {"rate": RATE | {"burst": 101}}}, "/limits/rate/burst", "at most count (100)"),
        ({"limits": {"rate": RATE | {"window": "sliding"}}}, "/limits/rate/burst", "sliding window"),
        ({"limits": {"rate": RATE | {"window": "fixed"}}}, "/limits/rate/window", "sliding"),
        ({"limits": {"per_key": {"max_in_flight": 1}}}, "/limits/per_key/key", "Required"),
        ({"limits": {"per_key": {"key": "", "max_in_flight": 1}}}, "/limits/per_key/key", "Length"),
        ({"limits": {"per_key": {"key": "{{input.a}}", "per": 1}}}, "/limits/per_key/per", "Unknown"),
        ({"breaker": "on"}, "/breaker", "'off'"),
        ({"breaker": {"failure_ratio": 0}}, "/breaker/failure_ratio", "0.01"),
        ({"breaker": {"failure_ratio": "0.5"}}, "/breaker/failure_ratio", "number"),
        ({"breaker": {"failure_ratio": True}}, "/breaker/failure_ratio", "number"),
        ({"breaker": {"min_results": 0}}, "/breaker/min_results", "1"),
        ({"breaker": {"window": "9s"}}, "/breaker/window", "from 10s to 10m"),
        ({"breaker": {"open_for": "2h"}}, "/breaker/open_for", "from 1s to 1h"),
        ({"version": 3}, "/version", "Unknown"),
    ],
)
def test_invalid_flow_field_is_named(shared_api: Api, body: dict[str, Any], pointer: str, words: str) -> None:
    """PATCH validates the body before it looks up the endpoint, which does not exist here."""
    error = problem(patch(shared_api, body), 400, "INVALID_REQUEST")
    assert pointers(error) == [pointer]
    assert words.lower() in error["details"][0]["message"].lower()
    if "version" not in body:
        error = problem(shared_api.post("/endpoints", http_endpoint(**body)), 400, "INVALID_REQUEST")
        assert pointers(error) == [pointer]


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("{{secret.token}}", "{{secret.token}} is not allowed in this field; allowed: input"),
        ("{{config.base}}", "{{config.base}} is not allowed in this field; allowed: input"),
        ("{{nonsense}}", "is not a variable"),
        ("{{input.user_id", "braces"),
        ("tenant", "one {{input.NAME}} placeholder"),
        ("a-{{input.user_id}}", "one {{input.NAME}} placeholder"),
        ("{{input.user_id.deep}}", "is never there: the payload spec does not allow it"),
    ],
)
def test_limit_key_must_be_one_placeholder_of_the_input(api: Api, key: str, words: str) -> None:
    register_all(api)
    limits = {"per_key": {"key": key, "max_in_flight": 1}}
    spec = {"payload_spec": "spec", "config": "config"}
    bodies = [patch(api, {"limits": limits}), api.put("/endpoints/target", http_endpoint(limits=limits, **spec))]
    bodies.append(api.post("/endpoints", http_endpoint("other", limits=limits, **spec)))
    for response in bodies:
        error = problem(response, 422, "TEMPLATE_RESOLUTION_FAILED")
        assert pointers(error) == ["/limits/per_key/key"]
        assert words in error["message"]
    good = {"per_key": {"key": "{{ input.user_id }}", "max_in_flight": 1}}
    assert patch(api, {"limits": good}).json["limits"] == good
