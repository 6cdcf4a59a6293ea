"""A worker with a blocked or dead thread exits, and another worker runs its executions."""

import pytest

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.kernel.db import Database
from brokers.worker_process import EXIT_LEASE_LOST
from tests import rows
from tests.acceptance.limits import ENDED_SECONDS, SHORT_LEASE
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance


BLOCKED = "tests.acceptance.faults.blocked_actors"


def test_blocked_thread_ends_the_process(database: Database, stack: Stack, receiver: Receiver) -> None:
    """Two workers serve different queues; the worker with the blocked heartbeat has no executions."""
    path = "/slow/100/blocked"
    rows.add_endpoint(database, spec={"url": f"{receiver.base_url}{path}", "method": "POST", "timeout_ms": 20_000})
    victims = {
        "its heartbeat stood still": stack.worker(
            "-Q", "kafka", module=BLOCKED, TEST_BLOCKED="heartbeat", **SHORT_LEASE
        ),
        "its delivery loop stood still": stack.worker(
            "-Q", "http", module=BLOCKED, TEST_BLOCKED="delivery", **SHORT_LEASE
        ),
    }
    rows.add_executions(database, 3, max_attempts=2)
    for message, victim in victims.items():
        assert victim.wait(ENDED_SECONDS) == EXIT_LEASE_LOST, victim.tail()
        assert message in victim.log.read_text()
    stack.scheduler(**SHORT_LEASE)
    stack.worker(**SHORT_LEASE)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 3})
    assert len(receiver.wait_for(3, path=path)) == 3, "the blocked process delivered something"


def test_dead_thread_ends_the_process(database: Database, stack: Stack, receiver: Receiver) -> None:
    """Without its finalizer the process would continue to claim and never write a result."""
    path = "/ok/dead-thread"
    rows.add_endpoint(database, spec={"url": f"{receiver.base_url}{path}", "method": "POST"})
    victim = stack.worker(module=BLOCKED, TEST_BLOCKED="finalizer", **SHORT_LEASE)
    (execution_id,) = rows.add_executions(database, 1, max_attempts=2)
    assert victim.wait(ENDED_SECONDS) == EXIT_LEASE_LOST, victim.tail()
    assert "its thread te-finalizer died" in victim.log.read_text()
    stack.scheduler(**SHORT_LEASE)
    stack.worker(**SHORT_LEASE)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 1})
    lost, second = rows.attempts(database, execution_id)
    assert (lost.error["type"], second.status) == ("WORKER_LOST", "SUCCESS")
    assert len(receiver.wait_for(2, path=path)) == 2
