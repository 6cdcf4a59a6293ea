"""Paused queues: no worker claims from them; waiting executions keep their order and run after the resume."""

import threading
from datetime import datetime

from sqlalchemy import text

from app.features.queues import pauses
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from brokers.attempt import Attempt
from tests import rows
from tests.contract.conftest import StartWorker
from tests.verdicts import success
from tests.waiting import eventually


def pause(database: Database, queue: str = "http") -> None:
    pauses.set_paused(database, queue, AuditedChange(SYSTEM), is_paused=True)


def resume(database: Database, queue: str = "http") -> None:
    pauses.set_paused(database, queue, AuditedChange(SYSTEM), is_paused=False)


def succeed(attempt: Attempt) -> None:
    attempt.complete(success({}))


def test_nothing_is_claimed_after_a_pause_by_a_worker_that_has_not_read_it(
    database: Database, start_worker: StartWorker
) -> None:
    started, claimed_at = threading.Event(), list[datetime]()

    def body(attempt: Attempt) -> None:
        started.set()
        claimed_at.append(attempt.claim.claimed_at)
        succeed(attempt)

    _, process = start_worker(body, capacity=4)
    process.flow.stop()  # from here on, only a claim refreshes the rules of this worker
    rows.add_executions(database, 3_000)
    process.inboxes.wake()
    assert started.wait(30)
    pause(database)
    paused_at = rows.database_now(database)
    eventually(lambda: "http" in process.rules.paused_queues, what="a claim to report the pause to the worker")
    eventually(lambda: not process.shares.slots, what="the running executions to end")
    eventually(lambda: not process.shares.quick | process.shares.others, what="the paused queue to need no slots")
    waiting = rows.statuses(database)["QUEUED"]
    assert waiting > 0
    # The worker's polls and claims are over: no worker finds the due executions.
    unclaimed = database.fetch(text("SELECT execution_id, run_at FROM executions WHERE status = 'QUEUED'"))
    process.inboxes.wake()
    assert rows.statuses(database)["QUEUED"] == waiting
    assert max(claimed_at) <= paused_at
    assert database.fetch(text("SELECT execution_id, run_at FROM executions WHERE status = 'QUEUED'")) == unclaimed

    resume(database)
    assert process.rules.refresh(process.rules.revision + 1)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 3_000}, what="all executions to succeed")
