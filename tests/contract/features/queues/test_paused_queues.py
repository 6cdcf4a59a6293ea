"""A paused queue: nobody claims from it, whoever knows of the pause; what waits keeps its place and goes on later."""

import threading
from datetime import datetime

from sqlalchemy import text

from app.features.queues import store as queues_store
from app.kernel.audit import SYSTEM
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database
from app.queue.executions.verdict import Verdict
from brokers.attempt import Attempt
from tests import rows
from tests.contract.conftest import StartWorker
from tests.waiting import eventually


def pause(database: Database, queue: str = "http") -> None:
    queues_store.set_paused(database, queue, AuditedChange(SYSTEM), is_paused=True)


def resume(database: Database, queue: str = "http") -> None:
    queues_store.set_paused(database, queue, AuditedChange(SYSTEM), is_paused=False)


def succeed(attempt: Attempt) -> None:
    attempt.conclude(Verdict.success({}))


def test_nothing_is_claimed_after_a_pause_even_by_who_has_not_heard_of_it(
    database: Database, start_worker: StartWorker
) -> None:
    started, claimed_at = threading.Event(), list[datetime]()

    def body(attempt: Attempt) -> None:
        started.set()
        claimed_at.append(attempt.claim.claimed_at)
        succeed(attempt)

    _, process = start_worker(body, capacity=4)
    process.flow.stop()  # who now learns of a change, does so by a claim or a look
    rows.add_executions(database, 3_000)
    process.inboxes.wake()
    assert started.wait(30)
    pause(database)
    paused_at = rows.database_now(database)
    eventually(lambda: "http" in process.rules.paused_queues, what="the worker to be told by a claim")
    eventually(lambda: not process.shares.slots, what="what runs to end")
    eventually(lambda: not process.shares.quick | process.shares.others, what="the paused queue to want no slots")
    waiting = rows.statuses(database)["QUEUED"]
    assert waiting > 0
    # Its looks and claims are over; what is due now is found by nobody.
    places = database.fetch(text("SELECT execution_id, run_at FROM executions WHERE status = 'QUEUED'"))
    process.inboxes.wake()
    assert rows.statuses(database)["QUEUED"] == waiting
    assert max(claimed_at) <= paused_at
    assert database.fetch(text("SELECT execution_id, run_at FROM executions WHERE status = 'QUEUED'")) == places

    resume(database)
    assert process.rules.refresh(process.rules.revision + 1)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 3_000}, what="all to be claimed")
