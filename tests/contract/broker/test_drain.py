"""A drained worker claims nothing more, finishes its attempts in flight, and ends."""

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
from app.kernel.processes import worker_commands
from app.kernel.processes.worker_commands import Command, CommandKind, CommandState
from brokers.attempt import Attempt, Stage
from brokers.worker_process import WorkerProcess
from tests import rows
from tests.contract.conftest import StartWorker
from tests.verdicts import success
from tests.waiting import eventually

HEARTBEAT_SECONDS = 0.1  # a worker reads its commands at each heartbeat


class BlockedActor:
    """An actor that completes its deliveries once `may_complete` is set.

    A test sets `process.leaving.end` to `process_ends.set`, to observe when the process wants to end.
    """

    def __init__(self) -> None:
        self.may_complete = threading.Event()
        self.process_ends = threading.Event()
        self.begun: list[Attempt] = []

    def body(self, attempt: Attempt) -> None:
        assert attempt.enter(Stage.STARTED)
        self.begun.append(attempt)
        threading.Thread(target=self._complete, args=[attempt], daemon=True).start()

    def _complete(self, attempt: Attempt) -> None:
        self.may_complete.wait(60)
        attempt.complete(success({}))


@pytest.fixture
def actor() -> Iterator[BlockedActor]:
    actor = BlockedActor()
    yield actor
    actor.may_complete.set()


def drain(database: Database, process: WorkerProcess) -> Command:
    return worker_commands.ask(database, process.worker_id, CommandKind.DRAIN, AuditedChange(SYSTEM))


def worker_state(database: Database, process: WorkerProcess) -> WorkerState:
    return store.get_worker(database, process.worker_id).state


def command_states(database: Database, process: WorkerProcess) -> list[CommandState]:
    return [command.state for command in worker_commands.latest(database, process.worker_id)]


def test_drained_worker_claims_nothing_more_finishes_and_ends(
    database: Database, start_worker: StartWorker, actor: BlockedActor
) -> None:
    worker, process = start_worker(actor.body, beat_seconds=HEARTBEAT_SECONDS)
    process.leaving.end = actor.process_ends.set
    rows.add_executions(database, 2)
    process.inboxes.wake()
    eventually(lambda: len(actor.begun) == 2, what="two deliveries")
    assert drain(database, process).state is CommandState.PENDING
    eventually(lambda: worker_state(database, process) is WorkerState.DRAINING, what="the acknowledgement")
    assert command_states(database, process) == [CommandState.ACKNOWLEDGED]
    rows.add_executions(database, 3)
    process.inboxes.wake()
    assert not actor.process_ends.is_set(), "two deliveries are in flight"
    assert rows.statuses(database) == {"RUNNING": 2, "QUEUED": 3}
    assert time.monotonic() < process.lease.valid_until
    actor.may_complete.set()
    assert actor.process_ends.wait(30)
    worker.stop()
    assert worker_state(database, process) is WorkerState.DRAINED
    assert rows.statuses(database) == {"SUCCESS": 2, "QUEUED": 3}


@pytest.mark.postgresql_only
def test_locked_table_of_commands_delays_neither_lease_nor_deliveries(
    database: Database, start_worker: StartWorker, actor: BlockedActor
) -> None:
    worker, process = start_worker(actor.body, lease_seconds=3.0, beat_seconds=HEARTBEAT_SECONDS)
    process.leaving.end = actor.process_ends.set
    actor.may_complete.set()
    with database.engine.begin() as connection:
        connection.execute(text("LOCK TABLE worker_commands IN ACCESS EXCLUSIVE MODE"))
        renewed = process.heartbeat.last_heartbeat()
        rows.add_executions(database, 20)
        process.inboxes.wake()
        eventually(lambda: rows.statuses(database) == {"SUCCESS": 20}, what="the deliveries")
        eventually(lambda: process.heartbeat.last_heartbeat() > renewed + 2, what="two renewals")
    drain(database, process)
    assert actor.process_ends.wait(30), "the worker reads commands again once the lock is gone"
    worker.stop()


def test_unknown_command_of_a_later_release_is_ignored(
    database: Database, start_worker: StartWorker, caplog: pytest.LogCaptureFixture
) -> None:
    worker, process = start_worker(lambda _: None, beat_seconds=HEARTBEAT_SECONDS)
    process.leaving.end = lambda: None
    database.fetch(
        text(
            "INSERT INTO worker_commands (command_id, worker_id, command, asked_by, expires_at) "
            "VALUES ('cmd_1', :worker, 'dance', 'test', now() + INTERVAL '1 minute') RETURNING 1"
        ),
        {"worker": process.worker_id},
    )
    drain(database, process)
    eventually(lambda: worker_state(database, process) is WorkerState.DRAINING, what="the drain")
    assert {row.command for row in worker_commands.latest(database, process.worker_id)} == {"dance", "drain"}
    assert caplog.text.count("of a later release") == 1
    (row,) = database.fetch(text("SELECT acknowledged_at FROM worker_commands WHERE command_id = 'cmd_1'"))
    assert row.acknowledged_at is None
    worker.stop()
