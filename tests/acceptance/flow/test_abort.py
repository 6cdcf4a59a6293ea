"""Aborts through the API: the worker of a hanging delivery ends the delivery."""

import pytest

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from tests.acceptance.jobs import wait_for_end
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance


@pytest.fixture(scope="module")
def api(shared_stack: Stack, shared_api: Api) -> Api:
    """A client of an API with two workers."""
    shared_stack.web()
    for _ in range(2):
        shared_stack.worker()
    return shared_api


@pytest.mark.parametrize("resource", ["jobs", "executions"])
def test_hanging_deliveries_are_aborted(api: Api, receiver: Receiver, resource: str) -> None:
    path = f"/hang/{resource}"
    spec = {"url": receiver.url(path), "method": "POST", "timeout_ms": 250_000, "soft_timeout_ms": 10}
    api.post("/endpoints", {"name": resource, "type": "HTTP", "spec": spec, "retry_policy": {"max_attempts": 3}})
    body = {"endpoint": resource, "trigger": "IMMEDIATE", "input": {}}
    jobs = [api.post("/jobs", body | {"idempotency_key": f"{resource}-{number}"}) for number in range(4)]
    receiver.wait_for(len(jobs), path=path)
    for job in jobs:
        execution_id = job["execution"]["execution_id"]
        history = f"/executions/{execution_id}/history"
        eventually(lambda at=history: "SOFT_LIMIT" in [step["reason"] for step in api.get(at)["items"]])
        api.post(f"/{resource}/{job['job_id'] if resource == 'jobs' else execution_id}/cancel?if_running=abort", {})
    for job in jobs:
        ended = wait_for_end(api, job["execution"]["execution_id"])
        assert (ended["status"], ended["attempt_count"]) == ("CANCELLED", 1)
        assert (ended["last_error"]["type"], ended["last_error"]["may_have_been_delivered"]) == ("ABORTED", True)
        assert api.get(f"/jobs/{job['job_id']}")["status"] == "RETIRED"
