"""The scheduler works ahead of time, and a cancel still wins until the claim."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.db import Database
from app.dev.receiver import Receiver
from tests.acceptance.client import Client
from tests.acceptance.fleet import Fleet
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

FAR = {"TE_LOOK_AHEAD_SEC": "20"}


def register(client: Client, receiver: Receiver, name: str) -> str:
    spec = {"url": f"{receiver.base_url}/ok/ahead-{name}", "method": "POST"}
    client.create("/endpoints", {"name": name, "type": "HTTP", "spec": spec})
    return f"/ok/ahead-{name}"


def delayed(client: Client, endpoint: str, run_at: datetime) -> Any:
    body = {"endpoint": endpoint, "trigger": "DELAYED", "run_at": run_at.isoformat(), "idempotency_key": endpoint}
    return client.create("/jobs", body)


def test_a_job_cancelled_in_the_look_ahead_window_never_fires(
    database: Database, fleet: Fleet, receiver: Receiver
) -> None:
    """A delayed job and a cron tick are QUEUED ahead of time and cancelled; a third job, due later, does fire."""
    _, base_url = fleet.web(**FAR)
    fleet.worker(**FAR)
    fleet.wait_for_line(fleet.scheduler(**FAR), "scheduler started")
    client = Client(base_url, fleet.api_key())
    paths = {name: register(client, receiver, name) for name in ("delayed", "ticking", "sentinel")}
    cron = client.create("/jobs", {"endpoint": "ticking", "trigger": "CRON", "cron": "0 0 1 1 *", "timezone": "UTC"})
    # Its next tick is made to be near, on the second: nobody wants to wait for New Year.
    database.fetch(text("UPDATE jobs SET cron_next_run_at = date_trunc('second', now()) + INTERVAL '12 seconds'"))
    due = datetime.now(UTC) + timedelta(seconds=12)
    one_shot = delayed(client, "delayed", due)
    assert one_shot["execution"]["status"] == "QUEUED", "due within the look-ahead"

    def ticks() -> Any:
        return client.call("GET", f"/jobs/{cron['job_id']}/executions")["items"]

    (tick,) = eventually(ticks, what="the tick, ahead of its time")
    assert tick["status"] == "QUEUED"
    for job in (one_shot, cron):
        assert client.call("POST", f"/jobs/{job['job_id']}/cancel")["status"] == "RETIRED"
    delayed(client, "sentinel", due + timedelta(seconds=1))

    receiver.wait_for(1, path=paths["sentinel"])
    assert receiver.wait_for(0, path=paths["delayed"]) == []
    assert receiver.wait_for(0, path=paths["ticking"]) == []
    assert [execution["status"] for execution in ticks()] == ["CANCELLED"]


def test_a_delayed_job_beyond_the_look_ahead_is_promoted_and_starts_on_time(
    database: Database, fleet: Fleet, receiver: Receiver
) -> None:
    ahead = {"TE_LOOK_AHEAD_SEC": "1"}
    _, base_url = fleet.web(**ahead)
    fleet.worker(**ahead)
    client = Client(base_url, fleet.api_key())
    path = register(client, receiver, "promoted")
    job = delayed(client, "promoted", datetime.now(UTC) + timedelta(seconds=6))
    assert job["execution"]["status"] == "PENDING"
    fleet.scheduler(**ahead)
    (sent,) = receiver.wait_for(1, path=path)
    ended = client.wait_for_end(job["execution"]["execution_id"])
    assert ended["status"] == "SUCCESS"
    assert datetime.fromisoformat(ended["started_at"]) >= datetime.fromisoformat(job["run_at"])
    assert sent.headers["X-Task-Executor-Scheduled-At"] is not None
