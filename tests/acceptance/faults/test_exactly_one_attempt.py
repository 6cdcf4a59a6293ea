"""Exactly one attempt for each of 500 executions, with two worker processes and two schedulers."""

from collections import Counter
from datetime import timedelta
from urllib.parse import quote

import pytest
from sqlalchemy import text

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.kernel.db import Database
from app.queue.reading.attempt_rows import ALL_ATTEMPTS
from tests import rows
from tests.cases import Breaches
from tests.waiting import eventually

TRIED = text(
    f"SELECT execution_id, attempt_number, tried.worker_id FROM {ALL_ATTEMPTS} AS tried "
    "JOIN executions AS e USING (execution_id) WHERE e.endpoint = :endpoint"
)
SERIALIZABLE = "?options=" + quote("-c default_transaction_isolation=serializable")


MODULES = ("actors", "tests.acceptance.faults.unlocked_actors")


@pytest.mark.acceptance
@pytest.mark.parametrize("url_suffix", ["", SERIALIZABLE], ids=["read-committed", "serializable"])
def test_each_execution_is_attempted_exactly_once(
    database: Database, database_url: str, stack: Stack, receiver: Receiver, url_suffix: str
) -> None:
    """With and without locks of the claims, each with a worker of its own beside the same schedulers."""
    url = database_url + url_suffix
    for _ in range(2):
        stack.scheduler(TE_DATABASE_URL=url)
    with Breaches() as breaches:
        for module in MODULES:
            path = f"/ok/once-{module}-{bool(url_suffix)}"
            rows.add_endpoint(database, module, spec={"url": f"{receiver.base_url}{path}", "method": "POST"})
            # The capacity is small, so that neither process can claim everything.
            worker = stack.worker(processes=2, module=module, TE_DATABASE_URL=url, TE_WORKER_MAX_CONCURRENT="8")
            with breaches.case(module):
                check_attempts(database, receiver, module, path)
            stack.kill(worker.name)


def check_attempts(database: Database, receiver: Receiver, endpoint: str, path: str) -> None:
    """Let the running processes deliver 500 executions, and check that each has one attempt."""
    now = rows.add_executions(database, 300, endpoint=endpoint)
    soon = rows.add_executions(database, 200, endpoint=endpoint, status="PENDING", due_in=timedelta(seconds=2))
    eventually(lambda: set(rows.statuses(database)) == {"SUCCESS"}, what="the success of all executions")
    keys = Counter(r.headers["Idempotency-Key"] for r in receiver.wait_for(0, path=path))
    assert keys == Counter(now + soon)
    tried = database.fetch(TRIED, {"endpoint": endpoint})
    assert Counter(row.execution_id for row in tried) == Counter(now + soon)
    assert {row.attempt_number for row in tried} == {1}
    assert len({row.worker_id for row in tried}) == 2, "only one worker process made attempts"
    early = database.fetch(text("SELECT execution_id FROM executions WHERE started_at < scheduled_at"))
    assert early == []
