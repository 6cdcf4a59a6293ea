"""Faulty receivers: each fault is one failed attempt with the documented error type, within time and memory limits."""

import pytest

from app.dev.process.child import Child
from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from tests.acceptance.jobs import run_job, wait_for_end

pytestmark = pytest.mark.acceptance

FAULTS = {
    "hang": ("TIMEOUT", True),
    "drip": ("TIMEOUT", True),
    "close": ("CONNECTION_ERROR", True),
    "garbage": ("CONNECTION_ERROR", True),
    "redirect": ("HTTP_ERROR", False),
    "status/500": ("HTTP_ERROR", False),
}


@pytest.fixture(scope="module")
def worker(shared_stack: Stack) -> Child:
    """The worker of a stack with an API."""
    shared_stack.web()
    return shared_stack.worker()


@pytest.fixture
def api(worker: Child, shared_api: Api) -> Api:
    return shared_api


def test_each_fault_is_a_failed_attempt_and_the_worker_continues(worker: Child, api: Api, receiver: Receiver) -> None:
    started = {}
    for behaviour in [*FAULTS, "big"]:
        name = behaviour.replace("/", "-")
        spec = {"url": f"{receiver.base_url}/{behaviour}/faulty", "method": "POST"}
        if behaviour in {"hang", "drip"}:
            spec["timeout_ms"] = 1500
        api.post("/endpoints", {"name": name, "type": "HTTP", "spec": spec})
        body = {"endpoint": name, "trigger": "IMMEDIATE", "idempotency_key": name}
        started[behaviour] = api.post("/jobs", body)["execution"]["execution_id"]
    found = {}
    for behaviour, execution_id in started.items():
        ended = wait_for_end(api, execution_id)
        (attempt,) = api.get(f"/executions/{execution_id}/attempts")["items"]
        if behaviour == "big":
            assert ended["status"] == "SUCCESS"
            assert len(attempt["output"]["body"]) == 16_384, "the body of ten megabytes is not truncated"
            continue
        assert (ended["status"], attempt["status"]) == ("FAILED", "FAILED")
        error = attempt["error"]
        found[behaviour] = (error["type"], error["may_have_been_delivered"])
        (line,) = api.get(f"/executions/{execution_id}/logs")["items"]
        assert (line["level"], error["message"] in line["message"]) == ("ERROR", True)
    assert found == FAULTS
    assert worker.is_running, worker.tail()


def test_recovered_receiver_gets_the_same_execution_again(api: Api, receiver: Receiver) -> None:
    spec = {"url": f"{receiver.base_url}/flaky/2/again", "method": "POST"}
    policy = {"max_attempts": 3, "backoff": "fixed", "initial_delay_ms": 50}
    # The failures of the other test could open the breaker of the receiver.
    endpoint = {"name": "flaky", "type": "HTTP", "spec": spec, "retry_policy": policy, "breaker": "off"}
    api.post("/endpoints", endpoint)
    ended = run_job(api, "flaky", "once")
    assert (ended["status"], ended["attempt_count"]) == ("SUCCESS", 3)
    sent = receiver.wait_for(3, path="/flaky/2/again")
    assert {r.idempotency_key for r in sent} == {ended["execution_id"]}
    assert len({r.headers["traceparent"].split("-")[1] for r in sent}) == 1, "the attempts have different traces"
    assert [r.headers["X-Task-Executor-Attempt"] for r in sent] == ["1", "2", "3"]
