"""The receiver's side against real workers: whoever dies or freezes, each execution has its effect once."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from app.dev.process.child import family, signal_all
from app.dev.process.ports import free_port
from app.dev.stack.runner import Stack
from app.kernel import db
from app.kernel.db import Database
from tests import rows
from tests.acceptance.conftest import stack_over
from tests.acceptance.limits import ENDED_SECONDS, SHORT_LEASE
from tests.servers import Cluster
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

SECRET = "whsec_c2VjcmV0IG9mIHRoZSBob3VzZQ=="
ROOT = Path(__file__).parents[3]
# The breaker of a receiver that was killed, and is there again: half a minute is usual.
OPEN_SHORTLY = text("""UPDATE endpoints SET breaker = '{"open_for": "1s"}' RETURNING 1""")


class Side:
    """The receiver's side: its process, and its database."""

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

    def wait_for(self, execution: str, place: str) -> None:
        eventually(lambda: any(place == at for at, _ in self.places(execution)), what=f"{execution} at {place}")

    def places(self, execution: str) -> list[tuple[str, int | None]]:
        found = self.database.fetch(text("SELECT place, status FROM places WHERE execution_id = :e"), {"e": execution})
        return [(row.place, row.status) for row in found]

    def open(self, execution: str, place: str) -> None:
        values = {"e": execution, "p": place}
        self.database.fetch(text("INSERT INTO opened (execution_id, place) VALUES (:e, :p)"), values)

    def effects(self, execution: str) -> list[int]:
        found = self.database.fetch(text("SELECT attempt FROM effects WHERE execution_id = :e"), {"e": execution})
        return [row.attempt for row in found]

    def answers(self, execution: str) -> dict[str, int | None]:
        return {place: status for place, status in self.places(execution) if place.startswith("answer")}


@pytest.fixture(scope="module")
def database(module_database_url: str) -> Iterator[Database]:
    database = db.connect(module_database_url, pool_size=5, application_name="te-test")
    yield database
    database.close()


@pytest.fixture(scope="module")
def stack(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A scheduler, beside which each test starts workers of its own."""
    with stack_over(module_database_url, tmp_path_factory.mktemp("logs")) as stack:
        stack.scheduler(**SHORT_LEASE)
        yield stack


@pytest.fixture(scope="module")
def side(stack: Stack, cluster: Cluster) -> Iterator[Side]:
    url = cluster.create()
    side = Side(stack, url)
    yield side
    side.process.kill()
    side.database.close()
    cluster.drop(url)


def begin(database: Database, side: Side, name: str, timeout_ms: int = 60_000, **order: Any) -> str:
    spec = {"url": f"http://127.0.0.1:{side.port}/deliveries", "method": "POST", "timeout_ms": timeout_ms}
    spec |= {"body_template": order, "signing": {"secret": SECRET}}
    policy = {"max_attempts": 10, "backoff": "fixed", "initial_delay_ms": 500}
    rows.add_endpoint(database, name, spec=spec, retry_policy=policy)
    database.fetch(OPEN_SHORTLY)
    return rows.add_executions(database, endpoint=name, max_attempts=10)[0]


def output(database: Database, execution: str) -> Any:
    """Wait for the success of an execution, and return what the last answer said."""
    eventually(lambda: rows.execution(database, execution).status == "SUCCESS", what=f"the success of {execution}")
    return json.loads(rows.attempts(database, execution)[-1].output["body"])


def test_lost_workers_repeat_and_come_late_without_an_effect(database: Database, stack: Stack, side: Side) -> None:
    """One is killed after the receiver has committed and before it has the answer; one freezes, and its delivery comes
    when a newer attempt was here."""
    frozen = stack.worker(**SHORT_LEASE)
    late = begin(database, side, "late", holds=["door/1", "door/3"], refuses=[2])
    side.wait_for(late, "door/1")
    pids = family(frozen.pid)
    signal_all(pids, signal.SIGSTOP)

    killed = stack.worker(**SHORT_LEASE)
    repeated = begin(database, side, "repeated", holds=["answer/1"])
    side.wait_for(repeated, "answer/1")
    assert side.effects(repeated) == [1]
    killed.kill()
    stack.worker(**SHORT_LEASE)

    assert output(database, repeated) == {"by": 1}
    assert [attempt.status for attempt in rows.attempts(database, repeated)] == ["FAILED", "SUCCESS"]
    assert side.answers(repeated) == {"answer/1": 200, "answer/2": 200}
    assert side.effects(repeated) == [1]

    side.wait_for(late, "door/3")
    assert side.effects(late) == []
    side.open(late, "door/1")
    side.wait_for(late, "answer/1")
    assert side.effects(late) == [], "a newer attempt was here"
    side.open(late, "door/3")
    assert output(database, late) == {"by": 3}
    assert side.answers(late) == {"answer/1": 409, "answer/2": 503, "answer/3": 200}
    signal_all(pids, signal.SIGCONT)
    assert frozen.wait(ENDED_SECONDS) not in {None, 0}
    assert [attempt.status for attempt in rows.attempts(database, late)] == ["FAILED", "FAILED", "SUCCESS"]
    assert side.effects(late) == [3]


def test_a_receiver_that_is_killed_has_had_all_of_an_effect_or_nothing(
    database: Database, stack: Stack, side: Side
) -> None:
    """Killed between effect and commit, and between commit and answer; what comes while an attempt works is put off."""
    worker = stack.worker(**SHORT_LEASE)
    uncommitted = begin(database, side, "uncommitted", holds=["effect/1"])
    unanswered = begin(database, side, "unanswered", holds=["answer/1"])
    side.wait_for(uncommitted, "effect/1")
    side.wait_for(unanswered, "answer/1")
    side.process.kill()
    assert (side.effects(uncommitted), side.effects(unanswered)) == ([], [1])
    side.restart()

    first = output(database, uncommitted)["by"]
    assert first > 1
    assert side.effects(uncommitted) == [first]
    assert output(database, unanswered) == {"by": 1}
    assert side.effects(unanswered) == [1]
    worker.kill()


def test_an_attempt_that_was_given_up_works_on_while_the_next_is_put_off(
    database: Database, stack: Stack, side: Side
) -> None:
    """409 with Retry-After is a failure that is tried again, by the policy as it is."""
    slow = begin(database, side, "slow", 1000, holds=["effect/1"])
    worker = stack.worker(**SHORT_LEASE)
    side.wait_for(slow, "answer/2")
    side.open(slow, "effect/1")
    assert output(database, slow) == {"by": 1}
    first, second, *_ = rows.attempts(database, slow)
    assert (first.error["type"], second.error["status_code"]) == ("TIMEOUT", 409)
    assert side.effects(slow) == [1]
    worker.kill()
