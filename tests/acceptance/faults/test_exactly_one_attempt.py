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
from tests.waiting import eventually

SERIALIZABLE = "?options=" + quote("-c default_transaction_isolation=serializable")


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("module", "url_suffix"),
    [
        (module, url_suffix)
        for module in ("actors", "tests.acceptance.faults.unlocked_actors")
        for url_suffix in ("", SERIALIZABLE)
    ],
    ids=["read-committed", "serializable", "read-committed-without-locks", "serializable-without-locks"],
)
def test_each_execution_is_attempted_exactly_once(
    database: Database, database_url: str, stack: Stack, receiver: Receiver, module: str, url_suffix: str
) -> None:
    path = f"/ok/once-{module}-{bool(url_suffix)}"
    rows.add_endpoint(database, spec={"url": f"{receiver.base_url}{path}", "method": "POST"})
    url = database_url + url_suffix
    # The capacity is small, so that neither process can claim everything.
    stack.worker(processes=2, module=module, TE_DATABASE_URL=url, TE_WORKER_MAX_CONCURRENT="8")
    for _ in range(2):
        stack.scheduler(TE_DATABASE_URL=url)
    now = rows.add_executions(database, 300)
    soon = rows.add_executions(database, 200, status="PENDING", due_in=timedelta(seconds=2))
    eventually(lambda: rows.statuses(database) == {"SUCCESS": 500})

    keys = Counter(r.headers["Idempotency-Key"] for r in receiver.wait_for(0, path=path))
    assert keys == Counter(now + soon)
    tried = database.fetch(text(f"SELECT execution_id, attempt_number, worker_id FROM {ALL_ATTEMPTS} AS tried"))
    assert Counter(row.execution_id for row in tried) == Counter(now + soon)
    assert {row.attempt_number for row in tried} == {1}
    assert len({row.worker_id for row in tried}) == 2, "only one worker process made attempts"
    early = database.fetch(text("SELECT execution_id FROM executions WHERE started_at < scheduled_at"))
    assert early == []
