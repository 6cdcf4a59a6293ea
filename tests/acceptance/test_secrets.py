"""A secret reaches its receiver, and no table, log or output."""

import base64
import json
from urllib.parse import quote

import pytest

from app.dev.process.child import Child
from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel.db import Database
from tests.acceptance.dump import dump
from tests.acceptance.jobs import run_job

pytestmark = pytest.mark.acceptance

SECRET = 'sk-live+"7f3a/9c?&=%é'
# Every encoding of the secret: plain, in a URL, in JSON, in Base64.
SHAPES = {
    SECRET,
    quote(SECRET, safe=""),
    quote(SECRET),
    json.dumps(SECRET)[1:-1],
    json.dumps(SECRET, ensure_ascii=False)[1:-1],
    base64.b64encode(SECRET.encode()).decode().rstrip("="),
}


@pytest.fixture(scope="module")
def worker(shared_stack: Stack) -> Child:
    """The worker of a stack with an API; both log everything."""
    shared_stack.web(TE_LOG_LEVEL="DEBUG")
    return shared_stack.worker(TE_LOG_LEVEL="DEBUG")


@pytest.fixture
def api(worker: Child, shared_api: Api) -> Api:
    return shared_api


def test_secret_in_url_header_and_body_is_in_no_table_and_no_log(
    shared_database: Database, shared_stack: Stack, worker: Child, api: Api, receiver: Receiver
) -> None:
    """The receiver echoes requests in a success and in an error; two targets cannot be reached."""
    api.post("/secrets", {"name": "token", "value": SECRET})
    targets = {
        "echo": f"{receiver.base_url}/echo/secret",
        "refused": "http://127.0.0.1:1/x",
        "unresolvable": "http://no-such-host.invalid/x",
        "garbage": f"{receiver.base_url}/garbage/secret",
    }
    ended = {}
    for name, url in targets.items():
        spec = {
            "url": url + "?token={{secret.token}}",
            "method": "POST",
            "headers": {"X-Token": "Bearer {{secret.token}}"},
            "body_template": {"token": "{{secret.token}}", "note": "key={{secret.token}}"},
            "expected_status_codes": [200],
        }
        api.post("/endpoints", {"name": name, "type": "HTTP", "spec": spec})
        ended[name] = run_job(api, name, f"run-{name}")
    spec = {"url": f"{receiver.base_url}/echo/unexpected?{{{{secret.token}}}}", "method": "POST"}
    spec["body_template"] = {"token": "{{secret.token}}"}
    api.post("/endpoints", {"name": "wrong", "type": "HTTP", "spec": spec | {"expected_status_codes": [299]}})
    ended["wrong"] = run_job(api, "wrong", "run-wrong")

    assert {name: execution["status"] for name, execution in ended.items()} == {
        "echo": "SUCCESS",
        "refused": "FAILED",
        "unresolvable": "FAILED",
        "garbage": "FAILED",
        "wrong": "FAILED",
    }
    (sent,) = receiver.wait_for(1, path="/echo/secret")
    assert sent.query["token"] == SECRET
    assert sent.headers["X-Token"].encode("utf-8", "surrogateescape").decode() == f"Bearer {SECRET}"
    assert sent.json == {"token": SECRET, "note": f"key={SECRET}"}

    assert "[secret]" in json.dumps(ended["echo"]["output"])
    for execution in ended.values():
        shared_stack.wait_for_line(worker, execution["execution_id"])
    kept, written = dump(shared_database), shared_stack.output()
    assert ended["echo"]["execution_id"] in kept
    assert [shape for shape in SHAPES if shape in kept] == []
    assert [shape for shape in SHAPES if shape in written] == []


def test_rotated_secret_is_used_by_the_next_claim(api: Api, receiver: Receiver) -> None:
    """The revision in each claim invalidates the caches, which would keep the old secret for minutes."""
    api.post("/secrets", {"name": "rotating", "value": "first-value"})
    api.post("/configs", {"name": "place", "values": {"path": "before"}})
    spec = {
        "url": f"{receiver.base_url}/ok/rotate-{{{{config.path}}}}",
        "method": "POST",
        "headers": {"X-Token": "{{secret.rotating}}"},
    }
    api.post("/endpoints", {"name": "rotating", "type": "HTTP", "config": "place", "spec": spec})
    assert run_job(api, "rotating", "one")["status"] == "SUCCESS"
    api.put("/secrets/rotating", {"value": "second-value"})
    api.put("/configs/place", {"values": {"path": "after"}})
    assert run_job(api, "rotating", "two")["status"] == "SUCCESS"
    sent = receiver.wait_for(2, path="/ok/rotate-")
    assert [(r.path, r.headers["X-Token"]) for r in sent] == [
        ("/ok/rotate-before", "first-value"),
        ("/ok/rotate-after", "second-value"),
    ]
