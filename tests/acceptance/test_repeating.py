"""Repeating jobs over real processes: distances between deliveries, overlap, pause and resume, versions."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from app.dev.receiver import Receiver
from tests.acceptance.client import Client
from tests.acceptance.fleet import Fleet
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

SECOND = timedelta(seconds=1)


@pytest.fixture
def client(fleet: Fleet) -> Client:
    """A client of a whole fleet: the API, a worker and two schedulers."""
    _, base_url = fleet.web()
    fleet.worker()
    fleet.scheduler()
    fleet.scheduler()
    return Client(base_url, fleet.api_key())


def interval(client: Client, receiver: Receiver, name: str, path: str, **fields: Any) -> Any:
    spec = {"url": f"{receiver.base_url}{path}", "method": "POST"}
    client.create("/endpoints", {"name": name, "type": "HTTP", "spec": spec})
    return client.create("/jobs", {"endpoint": name, "trigger": "INTERVAL", "every": "1s", **fields})


def ended(client: Client, job: Any, count: int) -> list[Any]:
    """Wait for so many executions that succeeded, and return them in order."""

    def enough() -> list[Any]:
        found = client.call("GET", f"/jobs/{job['job_id']}/executions?status=SUCCESS&limit=200")["items"]
        return sorted(found, key=lambda e: e["scheduled_at"]) if len(found) >= count else []

    return eventually(enough, what=f"{count} executions of {job['endpoint']}")


def at(execution: Any, name: str) -> datetime:
    return datetime.fromisoformat(execution[name])


def test_the_three_ways_to_repeat(client: Client, receiver: Receiver) -> None:
    steady = interval(client, receiver, "steady", "/ok/steady")
    delayed = interval(client, receiver, "delayed", "/slow/500/delayed", fixed_delay=True)
    alone = interval(client, receiver, "alone", "/slow/2500/alone", overlap="skip")

    executions = ended(client, steady, 4)
    assert {at(b, "scheduled_at") - at(a, "scheduled_at") for a, b in pairwise(executions)} == {SECOND}
    assert at(executions[0], "scheduled_at") - datetime.fromisoformat(steady["starts_at"]) == SECOND
    for execution in executions:
        assert at(execution, "started_at") >= at(execution, "scheduled_at")

    for before, after in pairwise(ended(client, delayed, 3)):
        assert at(after, "scheduled_at") - at(before, "completed_at") == SECOND

    for before, after in pairwise(ended(client, alone, 3)):
        assert at(after, "started_at") >= at(before, "completed_at")
    status = client.call("GET", f"/jobs/{alone['job_id']}/status")
    assert status["interval"]["skipped_ticks"]["overlap"] >= 2
    assert status["interval"]["skipped_ticks"]["catch_up"] == 0


def test_nothing_starts_in_a_pause_and_a_new_version_goes_on(client: Client, receiver: Receiver) -> None:
    job = interval(client, receiver, "held", "/ok/held")
    ended(client, job, 2)
    client.call("POST", f"/jobs/{job['job_id']}/pause")

    def waiting() -> list[Any]:
        items = client.call("GET", f"/jobs/{job['job_id']}/executions?limit=200")["items"]
        return [item for item in items if item["status"] not in {"SUCCESS", "PENDING"}]

    eventually(lambda: not waiting(), what="the end of what was running at the pause")
    before = len(receiver.wait_for(0, path="/ok/held"))
    # A job asked for later shows that time went by and that workers work.
    sentinel = interval(client, receiver, "sentinel", "/ok/sentinel")
    ended(client, sentinel, 3)
    assert len(receiver.wait_for(0, path="/ok/held")) == before

    changed = client.call("PUT", f"/jobs/{job['job_id']}", {"every": "2s"})
    assert (changed["status"], changed["version"]) == ("PAUSED", 2)
    client.call("POST", f"/jobs/{changed['job_id']}/resume")
    for first, second in pairwise(ended(client, changed, 2)):
        assert at(second, "scheduled_at") - at(first, "scheduled_at") == 2 * SECOND
    assert client.call("GET", f"/jobs/{job['job_id']}/executions?status=PENDING")["items"] == []
