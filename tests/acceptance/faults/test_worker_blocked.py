"""A worker that lives without one of its threads gives up, and its work runs elsewhere."""

import pytest

from app.db import Database
from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from brokers.worker_process import EXIT_LEASE_LOST
from tests import rows
from tests.acceptance.limits import ENDED_SECONDS, SHORT_LEASE
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize(
    ("blocked", "said"), [("heartbeat", "its heartbeat stood still"), ("delivery", "its delivery loop stood still")]
)
def test_a_blocked_thread_ends_the_process(
    database: Database, stack: Stack, receiver: Receiver, blocked: str, said: str
) -> None:
    path = f"/slow/100/blocked-{blocked}"
    rows.add_endpoint(database, spec={"url": f"{receiver.base_url}{path}", "method": "POST", "timeout_ms": 20_000})
    victim = stack.worker(module="tests.acceptance.faults.blocked_actors", TEST_BLOCKED=blocked, **SHORT_LEASE)
    if blocked == "delivery":
        rows.add_executions(database, 3, max_attempts=2)
    assert victim.wait(ENDED_SECONDS) == EXIT_LEASE_LOST, victim.tail()
    assert said in victim.log.read_text()
    rows.add_executions(database, 1)
    stack.scheduler(**SHORT_LEASE)
    stack.worker(**SHORT_LEASE)
    count = 4 if blocked == "delivery" else 1
    eventually(lambda: rows.statuses(database) == {"SUCCESS": count})
    assert len(receiver.wait_for(count, path=path)) == count, "the blocked process had sent nothing"


def test_a_thread_that_dies_ends_the_process(database: Database, stack: Stack, receiver: Receiver) -> None:
    """Without its finalizer it would go on claiming and never write a result."""
    path = "/ok/dead-thread"
    rows.add_endpoint(database, spec={"url": f"{receiver.base_url}{path}", "method": "POST"})
    victim = stack.worker(module="tests.acceptance.faults.blocked_actors", TEST_BLOCKED="finalizer", **SHORT_LEASE)
    (execution_id,) = rows.add_executions(database, 1, max_attempts=2)
    assert victim.wait(ENDED_SECONDS) == EXIT_LEASE_LOST, victim.tail()
    assert "its thread te-finalizer died" in victim.log.read_text()
    stack.scheduler(**SHORT_LEASE)
    stack.worker(**SHORT_LEASE)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1})
    lost, second = rows.attempts(database, execution_id)
    assert (lost.error["type"], second.status) == ("WORKER_LOST", "SUCCESS")
    assert len(receiver.wait_for(2, path=path)) == 2
