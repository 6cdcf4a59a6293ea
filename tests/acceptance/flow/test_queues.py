"""Queues: a worker serves the queues of its command line, or all queues with waiting executions."""

from typing import Any

import pytest

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from tests.acceptance.jobs import wait_for_end

pytestmark = pytest.mark.acceptance


def create(api: Api, endpoint: str, key: str, **fields: Any) -> str:
    body = {"endpoint": endpoint, "trigger": "IMMEDIATE", "idempotency_key": key, "input": {}} | fields
    execution_id: str = api.post("/jobs", body)["execution"]["execution_id"]
    return execution_id


def reason(api: Api, execution_id: str) -> Any:
    return api.get(f"/executions/{execution_id}/explain")["reason"]


def test_queue_is_served_by_the_workers_started_for_it(stack: Stack, api: Api, receiver: Receiver) -> None:
    stack.web(TE_ROUTES="billing-*=bulk")
    stack.worker("-Q", "http")
    for name in ("mail", "billing-eu"):
        spec = {"url": f"{receiver.base_url}/ok/{name}", "method": "POST"}
        api.post("/endpoints", {"name": name, "type": "HTTP", "spec": spec})
    routed = create(api, "billing-eu", "routed")
    # A later execution of a served queue is delivered, while the routed execution still waits.
    usual = wait_for_end(api, create(api, "mail", "usual"))
    assert (usual["status"], usual["queue"]) == ("SUCCESS", "http")
    assert (api.get(f"/executions/{routed}")["status"], reason(api, routed)) == ("QUEUED", "NO_WORKER")

    stack.worker("-Q", "bulk")
    arrived = wait_for_end(api, routed)
    assert (arrived["status"], arrived["queue"]) == ("SUCCESS", "bulk")
    assert arrived["worker_id"] != usual["worker_id"]

    # A worker without -Q serves all queues with executions, found at its start and later.
    waits = create(api, "mail", "waits", queue="own")
    stack.worker()
    found = wait_for_end(api, waits)
    later = wait_for_end(api, create(api, "mail", "later", queue="another"))
    assert found["worker_id"] == later["worker_id"] not in {usual["worker_id"], arrived["worker_id"]}
