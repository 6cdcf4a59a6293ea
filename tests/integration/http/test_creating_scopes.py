"""Keys that only create jobs, of the endpoints that a pattern names."""

import pytest
from flask import Flask

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.access.key_ring import Key
from app.kernel.db import Database
from schema.states import CallbackEvent
from tests.integration.client import Api, problem
from tests.integration.registered import http_endpoint, one_shot

CREATING = {("POST", "/jobs"), ("POST", "/jobs/batch")}
"""The operations that such a key reaches; each has a test of its own here."""
PUBLIC = ("/health/", "/openapi.json", "/docs", "/console")


@pytest.fixture
def sender(app: Flask, api: Api, database: Database) -> Api:
    for name in ("mail-now", "pay"):
        assert api.post("/endpoints", http_endpoint(name=name)).status_code == 201
    scopes = ["jobs:write:mail-*", "jobs:write:sms", Scope.JOBS_SEND]
    return Api(app, api_keys.create(database, "sender", scopes, None))


def test_every_operation_but_the_creation_of_jobs_is_refused(app: Flask, database: Database) -> None:
    """A new operation that creates jobs refuses such a key until it is listed here."""
    sender = Api(app, api_keys.create(database, "sender", ["jobs:write:mail-*"], None))
    reached = set[tuple[str, str]]()
    for rule in app.url_map.iter_rules():
        path = rule.rule.replace("<", "").replace(">", "")
        for method in (rule.methods or set()) - {"OPTIONS", "HEAD"}:
            if not path.startswith(PUBLIC) and sender.send(method, path).status_code != 403:
                reached.add((method, path))
    assert reached == CREATING


def test_job_is_created_for_a_matching_endpoint_only(sender: Api) -> None:
    assert sender.post("/jobs", one_shot("k", endpoint="mail-now")).status_code == 201
    error = problem(sender.post("/jobs", one_shot("k", endpoint="pay")), 403, "FORBIDDEN")
    assert "match mail-* or sms only, not of 'pay'" in error["message"]
    assert "the scope 'jobs:write:pay' or 'jobs:write'" in error["message"]


def test_unknown_endpoint_is_refused_like_a_known_one(sender: Api) -> None:
    problem(sender.post("/jobs", one_shot("k", endpoint="no-such")), 403, "FORBIDDEN")


def test_batch_creates_the_jobs_of_matching_endpoints_only(sender: Api) -> None:
    jobs = [one_shot("a", endpoint="mail-now"), one_shot("b", endpoint="pay")]
    made, refused = sender.post("/jobs/batch", {"jobs": jobs}).json["items"]
    assert (made["status"], refused["status"], refused["error"]["code"]) == (201, 403, "FORBIDDEN")


@pytest.mark.parametrize("event", [*CallbackEvent])
def test_callback_goes_to_a_matching_endpoint_only(sender: Api, event: CallbackEvent) -> None:
    for target in ({"endpoint": "mail-now"}, {"url": "https://receiver.example"}):
        for batch in (False, True):
            job = target | {"callbacks": {event.value: "pay"}, "idempotency_key": "k"}
            job |= {"trigger": "IMMEDIATE"} if "endpoint" in target else {}
            if batch:
                (item,) = sender.post("/jobs/batch", {"jobs": [job]}).json["items"]
                assert (item["status"], item["error"]["code"]) == (403, "FORBIDDEN")
            else:
                problem(sender.post("/jobs", job), 403, "FORBIDDEN")


def test_callback_of_null_needs_no_scope(sender: Api) -> None:
    job = one_shot("k", endpoint="mail-now") | {"callbacks": {"on_success": None}}
    assert sender.post("/jobs", job).status_code == 201


def test_scope_is_a_permission_or_a_pattern() -> None:
    scopes = ["read", "jobs:write:a-?", "actors:work:Shop.*", "actors:work"]
    assert [api_keys.scope_of(text) for text in scopes] == scopes
    for text in ("actors:work:", "actors:work:a b", "actors:work:[a]", f"actors:work:{'a' * 129}", "actors:works"):
        with pytest.raises(ValueError, match="is not a valid"):
            api_keys.scope_of(text)
    for text in ("root", "jobs:write:", "jobs:write:A", "jobs:write:[a]", "read:mail-*", f"jobs:write:{'a' * 129}"):
        with pytest.raises(ValueError, match="is not a valid"):
            api_keys.scope_of(text)


def test_all_endpoints_are_open_to_the_scope_without_a_pattern() -> None:
    for scope in (Scope.JOBS_WRITE, Scope.ADMIN):
        assert Key("id", "name", frozenset({scope})).may_create("pay")
    assert not Key("id", "name", frozenset({Scope.READ, Scope.JOBS_SEND})).may_create("pay")
