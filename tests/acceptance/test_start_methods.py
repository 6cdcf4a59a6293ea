"""Workers with spawned processes, or with processes of Python's fork server (the default from 3.14)."""

import signal

import pytest
from sqlalchemy import text

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.kernel.db import Database
from tests import rows
from tests.acceptance.limits import ENDED_SECONDS
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_worker_with_another_start_method_delivers_and_ends_cleanly(
    database: Database, stack: Stack, receiver: Receiver, method: str
) -> None:
    path = f"/ok/{method}"
    rows.add_endpoint(database, spec={"url": f"{receiver.base_url}{path}", "method": "POST"})
    worker = stack.launch("worker", ("tests.acceptance.start_method", method, "actors", "-p", "2", "-t", "2"))
    eventually(lambda: len(database.fetch(text("SELECT 1 FROM workers"))) == 2, what="both processes")
    executions = rows.add_executions(database, 50)
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 50})
    assert sorted(sent.idempotency_key for sent in receiver.wait_for(50, path=path)) == sorted(executions)
    worker.send(signal.SIGTERM)
    assert worker.wait(ENDED_SECONDS) == 0, worker.tail()
    assert {row.status for row in database.fetch(text("SELECT status FROM workers"))} == {"DEAD"}
