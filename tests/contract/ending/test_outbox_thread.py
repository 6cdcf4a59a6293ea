"""Thread of the outbox: wakes the consumers of its process, and all processes if one of them has too much to do."""

from collections.abc import Sequence

import pytest
from sqlalchemy import Connection

from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.queue.ending.handler import Handler, HandlerResult
from app.queue.ending.outbox_processor import OutboxProcessor
from app.queue.ending.outbox_rows import End
from brokers.inbox import Inboxes
from brokers.outbox_thread import MANY, OutboxThread
from tests.contract.ending.following import ALL, claimed, complete_claims


@pytest.mark.parametrize(("due", "hints"), [(MANY, []), (MANY + 1, ["http"])])
def test_many_due_executions_wake_other_processes_too(database: Database, due: int, hints: list[str]) -> None:
    worker_lease.register(database, worker_id="wrk_1", host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)

    def apply(_connection: Connection, _ends: Sequence[End]) -> HandlerResult:
        return HandlerResult({"http": due})

    inboxes, hinted = Inboxes(), list[str]()
    inbox = inboxes.open("http")
    processor = OutboxProcessor(database, handlers=[Handler("due", lambda _end: True, apply)])
    thread = OutboxThread(processor, inboxes, hinted.append)
    thread.start()
    try:
        thread.submit(complete_claims(database, claimed(database, "wrk_1", followed=ALL)))
        assert thread.flush(60)
    finally:
        thread.stop()
    assert (hinted, len(inbox.due)) == (hints, 1)
