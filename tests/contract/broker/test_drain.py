"""A worker that is asked to drain: it claims nothing more, finishes what it has begun, and ends."""

import threading
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from app.features.control import store
from app.features.control.store import WorkerState
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.kernel.processes import heartbeat_thread as health
from app.kernel.processes import worker_commands
from app.kernel.processes.worker_commands import Command, CommandKind, CommandState
from app.queue.executions.verdict import Verdict
from brokers.attempt import Attempt, Stage
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.conftest import StartWorker
from tests.waiting import eventually


@pytest.fixture(autouse=True)
def beats_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "BEAT_SECONDS", 0.1)


class Held:
    """An actor that ends each delivery once it is let go; `ends` is set when its process wants to end."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.ends = threading.Event()
        self.begun: list[Attempt] = []

    def body(self, attempt: Attempt) -> None:
        assert attempt.enter(Stage.STARTED)
        self.begun.append(attempt)
        threading.Thread(target=self._end, args=[attempt], daemon=True).start()

    def _end(self, attempt: Attempt) -> None:
        self.let_go.wait(60)
        attempt.conclude(Verdict.success({}))


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    held.let_go.set()


def drain(database: Database, process: WorkerProcess) -> Command:
    return worker_commands.ask(database, process.worker_id, CommandKind.DRAIN, AuditedChange(SYSTEM))


def state(database: Database, process: WorkerProcess) -> WorkerState:
    return store.get_worker(database, process.worker_id).state


def standing(database: Database, process: WorkerProcess) -> list[CommandState]:
    return [one.state for one in worker_commands.latest(database, process.worker_id)]


def test_it_claims_nothing_more_finishes_and_ends(database: Database, start_worker: StartWorker, held: Held) -> None:
    worker, process = start_worker(held.body)
    process.leaving.end = held.ends.set
    rows.add_executions(database, 2)
    process.inboxes.wake()
    eventually(lambda: len(held.begun) == 2, what="two deliveries")
    assert drain(database, process).state is CommandState.PENDING
    eventually(lambda: state(database, process) is WorkerState.DRAINING, what="the acknowledgement")
    assert standing(database, process) == [CommandState.ACKNOWLEDGED]
    rows.add_executions(database, 3)
    process.inboxes.wake()
    assert not held.ends.is_set(), "it holds two"
    assert rows.statuses(database) == {"RUNNING": 2, "QUEUED": 3}
    assert time.monotonic() < process.lease.valid_until
    held.let_go.set()
    assert held.ends.wait(30)
    worker.stop()
    assert state(database, process) is WorkerState.DRAINED
    assert rows.statuses(database) == {"SUCCESS": 2, "QUEUED": 3}


@pytest.mark.postgresql_only
def test_no_lock_of_control_costs_a_lease_or_a_delivery(
    database: Database, start_worker: StartWorker, held: Held
) -> None:
    worker, process = start_worker(held.body, lease_seconds=3.0)
    process.leaving.end = held.ends.set
    held.let_go.set()
    with database.engine.begin() as connection:
        connection.execute(text("LOCK TABLE worker_commands IN ACCESS EXCLUSIVE MODE"))
        renewed = process.heartbeat.last_sign()
        rows.add_executions(database, 20)
        process.inboxes.wake()
        eventually(lambda: rows.statuses(database) == {"SUCCESS": 20}, what="the deliveries")
        eventually(lambda: process.heartbeat.last_sign() > renewed + 2, what="two renewals")
    drain(database, process)
    assert held.ends.wait(30), "it goes on listening afterwards"
    worker.stop()


def test_a_command_of_a_later_release_is_left_alone(
    database: Database, start_worker: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker, process = start_worker(lambda _: None)
    process.leaving.end = lambda: None
    database.fetch(
        text(
            "INSERT INTO worker_commands (command_id, worker_id, command, asked_by, expires_at) "
            "VALUES ('cmd_1', :worker, 'dance', 'test', now() + INTERVAL '1 minute') RETURNING 1"
        ),
        {"worker": process.worker_id},
    )
    drain(database, process)
    eventually(lambda: state(database, process) is WorkerState.DRAINING, what="the one that it knows")
    assert {one.command for one in worker_commands.latest(database, process.worker_id)} == {"dance", "drain"}
    assert caplog.text.count("of a later release") == 1
    (row,) = database.fetch(text("SELECT acknowledged_at FROM worker_commands WHERE command_id = 'cmd_1'"))
    assert row.acknowledged_at is None
    worker.stop()
