"""Look-ahead of the scheduler: executions are queued early, and a cancellation before the claim still wins."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel.db import Database
from tests.acceptance.jobs import wait_for_end
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

AHEAD = {"TE_LOOK_AHEAD_SEC": "8"}
SECOND = timedelta(seconds=1)


def register(api: Api, receiver: Receiver, name: str) -> str:
    spec = {"url": f"{receiver.base_url}/ok/ahead-{name}", "method": "POST"}
    api.post("/endpoints", {"name": name, "type": "HTTP", "spec": spec})
    return f"/ok/ahead-{name}"


def delayed(api: Api, endpoint: str, run_at: datetime) -> Any:
    body = {"endpoint": endpoint, "trigger": "DELAYED", "run_at": run_at.isoformat(), "idempotency_key": endpoint}
    return api.post("/jobs", body)


def test_execution_cancelled_in_the_look_ahead_never_runs_and_a_pending_one_runs_on_time(
    database: Database, stack: Stack, api: Api, receiver: Receiver
) -> None:
    """A delayed job and a cron tick are QUEUED ahead of time and cancelled; a PENDING job, due after them, fires."""
    stack.web(**AHEAD)
    stack.worker(**AHEAD)
    stack.wait_for_line(stack.scheduler(**AHEAD), "scheduler started")
    paths = {name: register(api, receiver, name) for name in ("delayed", "ticking", "promoted")}
    cron = api.post("/jobs", {"endpoint": "ticking", "trigger": "CRON", "cron": "0 0 1 1 *", "timezone": "UTC"})
    # Move the yearly tick to 8 s from now, on a full second.
    database.fetch(text("UPDATE jobs SET cron_next_run_at = date_trunc('second', now()) + INTERVAL '8 seconds'"))
    due = datetime.now(UTC) + 7 * SECOND
    one_shot = delayed(api, "delayed", due)
    assert one_shot["execution"]["status"] == "QUEUED", "a job due within the look-ahead is not QUEUED"
    later = delayed(api, "promoted", due + 4 * SECOND)
    assert later["execution"]["status"] == "PENDING", "a job due after the look-ahead is not PENDING"

    def ticks() -> Any:
        return api.get(f"/jobs/{cron['job_id']}/executions")["items"]

    (tick,) = eventually(ticks, what="the tick, ahead of its time")
    assert tick["status"] == "QUEUED"
    for job in (one_shot, cron):
        assert api.post(f"/jobs/{job['job_id']}/cancel")["status"] == "RETIRED"

    (sent,) = receiver.wait_for(1, path=paths["promoted"])
    assert sent.headers["X-Task-Executor-Scheduled-At"] is not None
    ended = wait_for_end(api, later["execution"]["execution_id"])
    assert ended["status"] == "SUCCESS"
    assert datetime.fromisoformat(ended["started_at"]) >= datetime.fromisoformat(later["run_at"])
    assert receiver.wait_for(0, path=paths["delayed"]) == []
    assert receiver.wait_for(0, path=paths["ticking"]) == []
    assert [execution["status"] for execution in ticks()] == ["CANCELLED"]
