"""Restart of the database under load: no execution is lost, and no process needs a restart."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.dev.receiver import Receiver
from app.dev.servers import Postgres
from app.kernel import db
from schema import migrate
from tests import rows
from tests.acceptance.conftest import stack_over
from tests.servers import start_or_skip
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance


@pytest.fixture
def durable() -> Iterator[Postgres]:
    """A separate PostgreSQL server with fsync, which the test kills."""
    with start_or_skip(Postgres()) as server:
        yield server


def test_immediate_restart_of_the_database_under_load_loses_nothing(
    durable: Postgres, receiver: Receiver, tmp_path: Path
) -> None:
    path = "/slow/20/restart"
    migrate.upgrade(durable.url)
    database = db.connect(durable.url, pool_size=5, application_name="te-test")
    with closing(database), stack_over(durable.url, tmp_path) as stack:
        rows.add_endpoint(database, spec={"url": f"{receiver.base_url}{path}", "method": "POST"})
        worker = stack.worker(processes=2, TE_WORKER_MAX_CONCURRENT="10")
        scheduler = stack.scheduler()
        expected = rows.add_executions(database, 2000, max_attempts=3)
        receiver.wait_for(1, path=path)
        durable.restart()
        eventually(lambda: rows.statuses(database) == {"SUCCESS": 2000}, timeout=150)
        assert worker.is_running, worker.tail()
        assert scheduler.is_running, scheduler.tail()
        keys = Counter(r.headers["Idempotency-Key"] for r in receiver.wait_for(0, path=path))
        assert set(keys) == set(expected)
        repeated = [key for key, times in keys.items() if times > 1]
        for execution_id in repeated:
            tried = rows.attempts(database, execution_id)
            assert len(tried) > 1, "a repeated delivery has no recorded attempt"
