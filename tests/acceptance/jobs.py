"""Helpers that create jobs through the API and wait for their executions."""

from typing import Any

from app.dev.receiver import Receiver
from app.dev.stack.stack_client import Api
from tests.waiting import eventually

FINAL = {"SUCCESS", "FAILED", "CANCELLED"}


def run_job(api: Api, endpoint: str, key: str) -> Any:
    """Create an IMMEDIATE job, wait until its execution is final, and return the execution."""
    body = {"endpoint": endpoint, "trigger": "IMMEDIATE", "idempotency_key": key, "input": {}}
    return wait_for_end(api, api.post("/jobs", body)["execution"]["execution_id"])


def wait_for_end(api: Api, execution_id: str) -> Any:
    """Wait until an execution is final, and return it."""

    def final() -> Any:
        found = api.get(f"/executions/{execution_id}")
        return found if found["status"] in FINAL else None

    return eventually(final, what=f"the final status of {execution_id}")


def deliver_one(api: Api, receiver: Receiver, name: str) -> str:
    """Register an endpoint, create a job, wait for its delivery, and return the path of the endpoint."""
    path = f"/ok/{name}"
    spec = {"url": f"{receiver.base_url}{path}", "method": "POST"}
    api.post("/endpoints", {"name": name, "type": "HTTP", "spec": spec})
    api.post("/jobs", {"endpoint": name, "trigger": "IMMEDIATE", "idempotency_key": name, "input": {}})
    receiver.wait_for(1, path=path)
    return path
