"""API keys: validity, scopes, and cost per request."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from app.kernel.access import api_keys, key_ring
from app.kernel.access.api_keys import Scope
from app.kernel.access.key_ring import KeyRing
from app.kernel.db import Database
from app.kernel.errors import UnauthorizedError
from tests.cases import each_case
from tests.integration.client import Api, problem, services
from tests.integration.registered import http_endpoint, one_shot, register
from tests.integration.statements import Statements


@each_case(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic dTpw",
        "Bearer x",
        "Bearer te_",
        "Bearer te_a",
        "Bearer te_a_",
        "Bearer te__b",
        "Bearer te_0123456789abcdef_wrong",
        "Bearer sk_0123456789abcdef_wrong",
        "Bearer te_" + "a" * 10_000 + "_b",
        "Bearer te_é_b",
    ],
)
def test_request_without_a_valid_key_is_401(app: Flask, header: str | None) -> None:
    response = Api(app, None).send("GET", "/jobs", headers={} if header is None else {"Authorization": header})
    problem(response, 401, "UNAUTHORIZED")
    assert response.headers["WWW-Authenticate"] == "Bearer"


def test_secret_of_another_key_is_refused(app: Flask, database: Database) -> None:
    one, two = (api_keys.create(database, name, [Scope.ADMIN], None) for name in ("one", "two"))
    mixed = f"te_{one.split('_')[1]}_{two.split('_')[2]}"
    problem(Api(app, mixed).get("/jobs"), 401, "UNAUTHORIZED")
    assert Api(app, one).get("/jobs").status_code == 200
    problem(Api(app, mixed).get("/jobs"), 401, "UNAUTHORIZED")


CATALOG = ("/payload-specs", "/configs", "/secrets", "/endpoints")
WRITES = [
    *[("POST", path) for path in CATALOG],
    *[("PUT", f"{path}/x") for path in CATALOG],
    *[("DELETE", f"{path}/x") for path in CATALOG],
]
READS = [*CATALOG, "/jobs", "/executions/x", "/jobs/x/executions", "/workflows"]
JOB_WRITES = [
    "/jobs",
    "/jobs/x/cancel",
    "/executions/x/cancel",
    "/workflows",
    "/workflows/x/cancel",
    "/workflows/x/retry",
]


def test_scope_allows_its_operations_only(app: Flask, database: Database) -> None:
    reader = Api(app, api_keys.create(database, "reader", [Scope.READ], None))
    writer = Api(app, api_keys.create(database, "writer", [Scope.JOBS_WRITE], None))
    for path in READS:
        assert reader.get(path).status_code in {200, 404}
        problem(writer.get(path), 403, "FORBIDDEN")
    for path in JOB_WRITES:
        problem(reader.post(path), 403, "FORBIDDEN")
        assert writer.post(path).status_code in {404, 415}
    for method, path in WRITES:
        problem(reader.send(method, path), 403, "FORBIDDEN")
        problem(writer.send(method, path), 403, "FORBIDDEN")


def test_similar_endpoint_is_suggested_to_readers_only(app: Flask, api: Api, database: Database) -> None:
    api.post("/endpoints", http_endpoint(name="welcome"))
    writer = Api(app, api_keys.create(database, "writer", [Scope.JOBS_WRITE], None))
    both = Api(app, api_keys.create(database, "both", [Scope.JOBS_WRITE, Scope.READ], None))
    unknown = "There is no endpoint named 'welcom'."
    wrong = one_shot("k", endpoint="welcom")
    for key, remedy in ((writer, " Give the name of a registered endpoint."), (both, " Did you mean 'welcome'?")):
        error = problem(key.post("/jobs", wrong), 404, "ENDPOINT_NOT_FOUND")
        assert error["message"] == unknown + remedy
        (item,) = key.post("/jobs/batch", {"jobs": [wrong]}).json["items"]
        assert error["details"] == item["error"]["details"] == [{"pointer": "/endpoint", "message": error["message"]}]
    calls = one_shot("k", endpoint="welcome", callbacks={"on_failure": "welcom"})
    (item,) = both.post("/jobs/batch", {"jobs": [calls]}).json["items"]
    assert item["error"]["details"][0]["message"] == f"{unknown} Did you mean 'welcome'?"
    hidden = writer.post("/jobs", calls).json["error"]["details"]
    assert hidden == [{"pointer": "/callbacks/on_failure", "message": f"{unknown} Create it first: POST /endpoints."}]
    assert problem(both.get("/endpoints/zzz"), 404, "ENDPOINT_NOT_FOUND")["message"].endswith("lists the endpoints.")


@each_case(
    ("path", "body", "pointer"),
    [
        ("/jobs", one_shot("k", endpoint="welcome", callbacks={"on_failure": "welcom"}), "/callbacks/on_failure"),
        ("/workflows", {"name": "w", "nodes": [{"name": "a", "endpoint": "welcom"}]}, "/nodes/0/endpoint"),
    ],
)
def test_similar_endpoint_is_suggested_for_fields(shared_api: Api, path: str, body: Any, pointer: str) -> None:
    shared_api.post("/endpoints", http_endpoint(name="welcome"))
    error = shared_api.post(path, body).json["error"]
    message = "There is no endpoint named 'welcom'. Did you mean 'welcome'?"
    assert (error["message"], error["details"]) == (
        f"The request is not valid. {pointer}: {message}",
        [{"pointer": pointer, "message": message}],
    )


def test_document_and_health_need_no_key(app: Flask) -> None:
    anonymous = Api(app, None)
    for path in ("/openapi.json", "/health/live", "/health/ready"):
        assert anonymous.get(path).status_code == 200


PUBLIC = ("/health/live", "/health/ready", "/openapi.json", "/docs")


def test_every_other_route_needs_a_key(app: Flask) -> None:
    """New routes need a key too, unless their resource is public."""
    anonymous = Api(app, None)
    for rule in app.url_map.iter_rules():
        path = rule.rule.replace("<", "").replace(">", "")
        for method in rule.methods - {"OPTIONS", "HEAD"}:
            status = anonymous.send(method, path).status_code
            if path.startswith("/console"):  # leads to its sign-in; refuses forms of no page
                assert status == 200 if path == "/console/sign-in" and method == "GET" else status in {303, 403, 404}
            else:
                assert (status == 401) != path.startswith(PUBLIC), path


EXPIRE = text("UPDATE api_keys SET expires_at = now() - INTERVAL '1 second' WHERE name = 'short'")


def test_expired_key_is_refused(app: Flask, database: Database) -> None:
    key = api_keys.create(database, "short", [Scope.ADMIN], datetime.now(UTC) + timedelta(hours=1))
    database.fetch(EXPIRE)
    problem(Api(app, key).get("/jobs"), 401, "UNAUTHORIZED")


def test_cached_key_is_refused_once_it_expires(app: Flask, database: Database) -> None:
    now = 0.0
    ring = KeyRing(database, clock=lambda: now)
    lifetime = key_ring.CACHE_SECONDS - 1
    key = api_keys.create(database, "short", [Scope.ADMIN], datetime.now(UTC) + timedelta(seconds=lifetime))
    assert ring.verify(key).name == "short"
    database.fetch(EXPIRE)
    assert ring.verify(key).name == "short", "the cache still holds the key"
    now = lifetime
    with pytest.raises(UnauthorizedError):
        ring.verify(key)


def test_key_that_no_header_can_have_is_refused(database: Database) -> None:
    """Keys also come in the frames of processes with actors."""
    with pytest.raises(UnauthorizedError):
        KeyRing(database).verify("te_a_\ud800")


def test_revoked_key_is_refused_once_its_cache_entry_expires(app: Flask, database: Database) -> None:
    key = api_keys.create(database, "gone", [Scope.ADMIN], None)
    api = Api(app, key)
    services(app).keys.cache_seconds = 0.0
    assert api.get("/jobs").status_code == 200
    assert api_keys.revoke(database, key.split("_")[1]) == "gone"
    problem(api.get("/jobs"), 401, "UNAUTHORIZED")


def test_cached_key_costs_no_round_trip(api: Api, statements: Statements) -> None:
    register(api)
    api.post("/jobs", one_shot("first"))
    statements.clear()
    api.get("/executions")
    assert len(statements.texts) == 1


def test_last_use_is_written_at_most_once_a_minute(app: Flask, database: Database) -> None:
    services(app).keys.cache_seconds = 0.0
    api = Api(app, api_keys.create(database, "used", [Scope.ADMIN], None))

    def last_used() -> datetime | None:
        (stored,) = api_keys.list_keys(database)
        return stored.last_used_at

    assert last_used() is None
    api.get("/jobs")
    first = last_used()
    assert first is not None
    api.get("/jobs")
    assert last_used() == first
    database.fetch(text("UPDATE api_keys SET last_used_at = last_used_at - INTERVAL '2 minutes'"))
    api.get("/jobs")
    assert last_used() > first


def test_wrong_secret_does_not_count_as_use(app: Flask, database: Database) -> None:
    key = api_keys.create(database, "quiet", [Scope.ADMIN], None)
    problem(Api(app, key[:-1] + ("0" if key[-1] != "0" else "1")).get("/jobs"), 401, "UNAUTHORIZED")
    (stored,) = api_keys.list_keys(database)
    assert stored.last_used_at is None


def test_only_the_hash_of_a_key_is_stored(database: Database) -> None:
    key = api_keys.create(database, "hidden", [Scope.ADMIN], None)
    rows = database.fetch(text("SELECT CAST(row_to_json(k) AS TEXT) AS row FROM api_keys k"))
    assert key.split("_")[2] not in rows[0].row
