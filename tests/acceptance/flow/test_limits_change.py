"""Changed limits while executions wait: all workers apply them within a second, and no execution is lost."""

from datetime import datetime
from typing import Any

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

JOBS = 1_500
SPANS = text(f"SELECT started_at, completed_at FROM {ALL_ATTEMPTS} AS a WHERE started_at > :since ORDER BY started_at")
RUNNING = text("SELECT count(*) AS n FROM executions WHERE status = 'RUNNING'")


def patch(api: Api, body: dict[str, Any]) -> None:
    response = api.request("PATCH", "/endpoints/target", json=body)
    assert response.status_code == 200, response.text


def max_concurrent(spans: list[tuple[datetime, datetime]]) -> int:
    """Return the largest number of overlapping spans; a span does not overlap a span that starts at its end."""
    changes = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    running = maximum = 0
    for _, change in changes:
        running += change
        maximum = max(maximum, running)
    return maximum


def test_changed_limit_applies_on_all_workers_within_a_second(
    stack: Stack, api: Api, database: Database, receiver: Receiver
) -> None:
    """The workers get no wake-up and poll only every minute, so they must read the changed limits by themselves."""
    stack.web()
    stack.worker(processes=3, TE_WORKER_POLL_INTERVAL_MS="60000")
    path = "/slow/20"
    spec = {"url": receiver.url(path), "method": "POST"}
    api.post("/endpoints", {"name": "target", "type": "HTTP", "spec": spec, "limits": {"max_in_flight": 30}})
    body = {"endpoint": "target", "trigger": "IMMEDIATE", "input": {}}
    for start in range(0, JOBS, 500):
        jobs = [body | {"idempotency_key": f"job-{number}"} for number in range(start, start + 500)]
        api.post("/jobs/batch", {"jobs": jobs})
    receiver.wait_for(100, path=path)

    patch(api, {"limits": {"max_in_flight": 2}})
    changed = rows.database_now(database)
    later = text("SELECT CAST(:at AS TIMESTAMPTZ) + INTERVAL '1 second' AS at")
    since = database.fetch(later, {"at": changed})[0].at
    eventually(lambda: len(database.fetch(SPANS, {"since": since})) >= 40, what="40 attempts after the change")
    spans = [(row.started_at, row.completed_at) for row in database.fetch(SPANS, {"since": since})]
    assert max_concurrent(spans) <= 2

    response = api.request("POST", "/endpoints/target/pause")
    assert response.status_code == 200, response.text
    eventually(lambda: database.fetch(RUNNING)[0].n == 0, what="the end of all deliveries of the paused endpoint")
    waiting = rows.statuses(database)
    assert waiting["QUEUED"] > 0

    patch(api, {"limits": None})
    assert api.request("POST", "/endpoints/target/resume").status_code == 200
    eventually(lambda: rows.statuses(database) == {"SUCCESS": JOBS}, what="the success of all waiting executions")
    assert len([request for request in receiver.requests if request.path == path]) == JOBS
