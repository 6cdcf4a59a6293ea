"""A limit of deliveries in flight is strict over all processes, even when processes or the database are killed."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from app.dev.process.child import Child, family
from app.dev.receiver import Receiver
from app.dev.servers import Postgres
from app.kernel import db
from app.kernel.db import Database
from app.queue.reading.attempt_rows import ALL_ATTEMPTS
from brokers.worker_process import EXIT_LEASE_LOST
from schema import migrate
from tests import rows
from tests.acceptance.conftest import stack_over
from tests.acceptance.limits import SHORT_LEASE
from tests.servers import start_or_skip
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

MAX_IN_FLIGHT, COUNT = 4, 400
# Process ids by number of attempts. One process may hold all deliveries that the limit allows.
CLAIMED_BY = text(
    f"SELECT w.pid, count(*) FROM {ALL_ATTEMPTS} AS a JOIN workers AS w ON w.worker_id = a.worker_id "
    "GROUP BY w.pid ORDER BY count(*) DESC"
)


@pytest.fixture
def durable() -> Iterator[Postgres]:
    """A separate PostgreSQL server with fsync, which the test kills."""
    with start_or_skip(Postgres()) as server:
        yield server


def add_limited(database: Database, url: str) -> None:
    rows.add_endpoint(database, spec={"url": url, "method": "POST"})
    limits = text("UPDATE endpoints SET limits = jsonb_build_object('max_in_flight', CAST(:limit AS BIGINT))")
    database.fetch(limits, {"limit": MAX_IN_FLIGHT})


def test_limit_in_flight_holds_when_a_process_and_the_database_are_killed(
    durable: Postgres, receiver: Receiver, tmp_path: Path
) -> None:
    path = "/slow/30/strict"
    migrate.upgrade(durable.url)
    database = db.connect(durable.url, pool_size=5, application_name="te-test")
    with closing(database), stack_over(durable.url, tmp_path) as stack:
        add_limited(database, f"{receiver.base_url}{path}")
        workers = [stack.worker(**SHORT_LEASE) for _ in range(3)]
        stack.scheduler(**SHORT_LEASE)
        rows.add_executions(database, COUNT, max_attempts=3)
        receiver.wait_for(COUNT // 4, path=path)
        busy = database.fetch(CLAIMED_BY)[0].pid
        next(worker for worker in workers if busy in family(worker.pid)).kill()
        receiver.wait_for(COUNT // 2, path=path)
        durable.restart()
        started_again = list[Child]()

        def is_over() -> bool:
            # Where the restart lasts longer than a lease, workers end with a request for a new start.
            for worker in workers:
                if worker.returncode == EXIT_LEASE_LOST:
                    worker.start()
                    started_again.append(worker)
            return rows.statuses(database) == {"SUCCESS": COUNT}

        eventually(is_over, timeout=150, what="the success of all executions")
        lost = database.fetch(text("SELECT count(*) FROM attempts WHERE error->>'type' = 'WORKER_LOST'"))[0][0]
    assert lost <= MAX_IN_FLIGHT * (1 + len(started_again))
    assert receiver.record.most_open(path) == MAX_IN_FLIGHT
