"""Isolation with default settings: hanging, slow and failing endpoints with backlogs do not starve other endpoints."""

from datetime import timedelta

import pytest
from sqlalchemy import text

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel.db import Database
from app.queue.reading.attempt_rows import ALL_ATTEMPTS
from tests import rows
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

DUE = 5_000  # executions per bad endpoint, due an hour ago
QUICK = [f"quick-{number}" for number in range(10)]
ENDED = text(
    f"SELECT count(*) AS n FROM {ALL_ATTEMPTS} AS a JOIN executions AS e USING (execution_id) WHERE e.endpoint = :name"
)
# Different hosts for the hanging and the slow endpoint, since connections are shared by host.
HOSTS = {"hangs": "127.0.0.1", "crawls": "localhost", "fails": "127.0.0.1"}
PATHS = {"hangs": "/hang", "crawls": "/drip", "fails": "/status/500"}


def add_backlogs(api: Api, database: Database, receiver: Receiver) -> None:
    for name, path in PATHS.items():
        url = receiver.url(path).replace("127.0.0.1", HOSTS[name])
        policy = {"max_attempts": 100, "max_delay_ms": 10}
        spec = {"url": url, "method": "POST", "timeout_ms": 299_999}
        # A breaker would stop all deliveries to the host, and the test would prove nothing.
        api.post("/endpoints", {"name": name, "type": "HTTP", "spec": spec, "retry_policy": policy, "breaker": "off"})
        rows.add_executions(database, DUE, endpoint=name, max_attempts=100, due_in=timedelta(hours=-1))


def deliver_quick_jobs(api: Api, database: Database, batch: str) -> None:
    """Create five jobs of each quick endpoint, and wait until all have succeeded."""
    jobs = [
        {"endpoint": name, "trigger": "IMMEDIATE", "input": {}, "idempotency_key": f"{batch}-{name}-{number}"}
        for name in QUICK
        for number in range(5)
    ]
    created = api.post("/jobs/batch", {"jobs": jobs})
    waiting = {item["job"]["execution"]["execution_id"] for item in created["items"]}
    done = text("SELECT count(*) AS n FROM executions WHERE status = 'SUCCESS' AND execution_id = ANY (:ids)")
    eventually(
        lambda: database.fetch(done, {"ids": list(waiting)})[0].n == len(waiting),
        what=f"the success of the quick jobs {batch}",
    )


def test_bad_endpoints_leave_other_endpoints_their_fair_share(
    stack: Stack, api: Api, database: Database, receiver: Receiver
) -> None:
    stack.web()
    for name in QUICK:
        api.post("/endpoints", {"name": name, "type": "HTTP", "spec": {"url": receiver.url("/ok"), "method": "POST"}})
    add_backlogs(api, database, receiver)
    first, *_ = (stack.worker(TE_WORKER_MAX_CONCURRENT="30", TE_CONNECTIONS_PER_HOST="1000") for _ in range(3))
    # The three bad endpoints share 30 slots per process: ten each in three processes.
    receiver.wait_for(30, path="/hang")
    receiver.wait_for(30, path="/drip")
    deliver_quick_jobs(api, database, "during the backlog")
    stack.kill(first.name)
    deliver_quick_jobs(api, database, "after a kill")
    for name in ("hangs", "crawls"):
        assert database.fetch(ENDED, {"name": name})[0].n == 0, "a bad endpoint freed a slot during the test"
