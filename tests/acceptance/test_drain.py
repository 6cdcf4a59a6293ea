"""Drain of a worker process: the process finishes its deliveries and ends, and its siblings end with it."""

from typing import Any

import pytest

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from tests.acceptance.jobs import wait_for_end
from tests.waiting import HUNG_SECONDS, eventually

pytestmark = pytest.mark.acceptance
HELD = "/held/drain"


def create(api: Api, key: str) -> Any:
    body = {"endpoint": "held", "trigger": "IMMEDIATE", "idempotency_key": key, "input": {}}
    return api.post("/jobs", body)["execution"]["execution_id"]


def states(api: Api, worker_id: str) -> tuple[str, str]:
    found = api.get(f"/workers/{worker_id}")
    return found["state"], found["commands"][0]["state"]


def test_drained_process_claims_nothing_and_ends_after_its_deliveries(
    stack: Stack, api: Api, receiver: Receiver
) -> None:
    stack.web()
    child = stack.worker(processes=2)
    spec = {"url": f"{receiver.base_url}{HELD}", "method": "POST", "timeout_ms": 250_000}
    api.post("/endpoints", {"name": "held", "type": "HTTP", "spec": spec, "retry_policy": {"max_attempts": 1}})
    first = create(api, "first")
    receiver.wait_for(1, path=HELD)
    draining = api.get(f"/executions/{first}")["worker_id"]
    assert api.post(f"/workers/{draining}/drain")["state"] == "PENDING"
    eventually(lambda: states(api, draining) == ("DRAINING", "ACKNOWLEDGED"), what="the acknowledgement")
    later = [create(api, f"later-{number}") for number in range(8)]
    receiver.wait_for(9, path=HELD)
    assert draining not in {api.get(f"/executions/{execution_id}")["worker_id"] for execution_id in later}
    assert child.is_running, "the worker ended before its delivery"
    receiver.release(HELD)
    assert {wait_for_end(api, execution_id)["status"] for execution_id in (first, *later)} == {"SUCCESS"}
    assert child.wait(HUNG_SECONDS) == 0, child.tail()
    assert sorted(worker["state"] for worker in api.get("/workers")["items"]) == ["DEAD", "DRAINED"]
