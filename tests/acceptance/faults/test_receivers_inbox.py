"""Inbox of the receiver with real workers: each execution has one effect, whichever process dies or freezes."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.dev.process.child import freeze, signal_all
from app.dev.process.ports import free_port
from app.dev.stack.runner import Stack
from app.kernel import db
from app.kernel.db import Database
from tests import rows
from tests.acceptance.limits import ENDED_SECONDS, SHORT_LEASE
from tests.servers import Cluster
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

SECRET = "whsec_c2VjcmV0IG9mIHRoZSBob3VzZQ=="
ROOT = Path(__file__).parents[3]
# Keep the breaker of the killed and restarted receiver open for one second, not for the default of 30 s.
OPEN_SHORTLY = text("""UPDATE endpoints SET breaker = '{"open_for": "1s"}' RETURNING 1""")


class ReceiverSide:
    """The process of the receiver and its database."""

    def __init__(self, stack: Stack, url: str) -> None:
        self._stack = stack
        self.port = free_port()
        self.database = db.connect(url, pool_size=5, application_name="te-test-receiver")
        command = ("tests.acceptance.faults.held_receiver", str(self.port), url, SECRET)
        self.process = stack.launch("receiver", command, PYTHONPATH=f"{ROOT}:{ROOT / 'receiver'}")
        stack.wait_for_line(self.process, "Running on")

    def restart(self) -> None:
        self._stack.start_process("receiver")
        self._stack.wait_for_line(self.process, "Running on", times=2)

    def wait_for(self, execution: str, point: str) -> None:
        eventually(lambda: any(point == name for name, _ in self.points(execution)), what=f"{execution} at {point}")

    def points(self, execution: str) -> list[tuple[str, int | None]]:
        found = self.database.fetch(text("SELECT point, status FROM points WHERE execution_id = :e"), {"e": execution})
        return [(row.point, row.status) for row in found]

    def release(self, execution: str, point: str) -> None:
        values = {"e": execution, "p": point}
        self.database.fetch(text("INSERT INTO released (execution_id, point) VALUES (:e, :p)"), values)

    def effects(self, execution: str) -> list[int]:
        found = self.database.fetch(text("SELECT attempt FROM effects WHERE execution_id = :e"), {"e": execution})
        return [row.attempt for row in found]

    def responses(self, execution: str) -> dict[str, int | None]:
        return {point: status for point, status in self.points(execution) if point.startswith("response")}


@pytest.fixture
def database(shared_database: Database) -> Database:
    return shared_database


@pytest.fixture(scope="module")
def stack(shared_stack: Stack) -> Stack:
    """A stack with a scheduler; each test starts its own workers."""
    shared_stack.scheduler(**SHORT_LEASE)
    return shared_stack


@pytest.fixture(scope="module")
def side(stack: Stack, cluster: Cluster) -> Iterator[ReceiverSide]:
    url = cluster.create()
    side = ReceiverSide(stack, url)
    yield side
    side.process.kill()
    side.database.close()
    cluster.drop(url)


def begin(database: Database, side: ReceiverSide, name: str, timeout_ms: int = 60_000, **order: Any) -> str:
    spec = {"url": f"http://127.0.0.1:{side.port}/deliveries", "method": "POST", "timeout_ms": timeout_ms}
    spec |= {"body_template": order, "signing": {"secret": SECRET}}
    policy = {"max_attempts": 10, "backoff": "fixed", "initial_delay_ms": 500}
    rows.add_endpoint(database, name, spec=spec, retry_policy=policy)
    database.fetch(OPEN_SHORTLY)
    return rows.add_executions(database, endpoint=name, max_attempts=10)[0]


def output(database: Database, execution: str) -> Any:
    """Wait for the success of an execution, and return the body of the last response."""
    eventually(lambda: rows.execution(database, execution).status == "SUCCESS", what=f"the success of {execution}")
    return json.loads(rows.attempts(database, execution)[-1].output["body"])


def test_repeated_and_late_deliveries_of_lost_workers_have_no_effect(
    database: Database, stack: Stack, side: ReceiverSide
) -> None:
    """One worker is killed after the receiver's commit and before the response.

    The other worker freezes, and its delivery is processed after a newer attempt.
    """
    frozen = stack.worker(**SHORT_LEASE)
    late = begin(database, side, "late", holds=["arrival/1", "arrival/3"], refuses=[2])
    side.wait_for(late, "arrival/1")
    pids = freeze(frozen.pid)

    killed = stack.worker(**SHORT_LEASE)
    repeated = begin(database, side, "repeated", holds=["response/1"])
    side.wait_for(repeated, "response/1")
    assert side.effects(repeated) == [1]
    killed.kill()
    stack.worker(**SHORT_LEASE)

    assert output(database, repeated) == {"by": 1}
    assert [attempt.status for attempt in rows.attempts(database, repeated)] == ["FAILED", "SUCCESS"]
    assert side.responses(repeated) == {"response/1": 200, "response/2": 200}
    assert side.effects(repeated) == [1]

    side.wait_for(late, "arrival/3")
    assert side.effects(late) == []
    side.release(late, "arrival/1")
    side.wait_for(late, "response/1")
    assert side.effects(late) == [], "an attempt older than the newest attempt had an effect"
    side.release(late, "arrival/3")
    assert output(database, late) == {"by": 3}
    assert side.responses(late) == {"response/1": 409, "response/2": 503, "response/3": 200}
    signal_all(pids, signal.SIGCONT)
    assert frozen.wait(ENDED_SECONDS) not in {None, 0}
    assert [attempt.status for attempt in rows.attempts(database, late)] == ["FAILED", "FAILED", "SUCCESS"]
    assert side.effects(late) == [3]


def test_killed_receiver_has_a_whole_effect_or_none(database: Database, stack: Stack, side: ReceiverSide) -> None:
    """The receiver is killed between effect and commit, and between commit and response."""
    worker = stack.worker(**SHORT_LEASE)
    uncommitted = begin(database, side, "uncommitted", holds=["effect/1"])
    unanswered = begin(database, side, "unanswered", holds=["response/1"])
    side.wait_for(uncommitted, "effect/1")
    side.wait_for(unanswered, "response/1")
    side.process.kill()
    assert (side.effects(uncommitted), side.effects(unanswered)) == ([], [1])
    side.restart()

    first = output(database, uncommitted)["by"]
    assert first > 1
    assert side.effects(uncommitted) == [first]
    assert output(database, unanswered) == {"by": 1}
    assert side.effects(unanswered) == [1]
    worker.kill()


def test_timed_out_attempt_takes_effect_while_the_next_attempt_gets_409(
    database: Database, stack: Stack, side: ReceiverSide
) -> None:
    """409 with Retry-After is a failure that the default error lists of the policy retry."""
    slow = begin(database, side, "slow", 1000, holds=["effect/1"])
    worker = stack.worker(**SHORT_LEASE)
    side.wait_for(slow, "response/2")
    side.release(slow, "effect/1")
    assert output(database, slow) == {"by": 1}
    first, second, *_ = rows.attempts(database, slow)
    assert (first.error["type"], second.error["status_code"]) == ("TIMEOUT", 409)
    assert side.effects(slow) == [1]
    worker.kill()
