"""Repeating jobs with real processes: intervals between deliveries, overlap, pause and resume, versions."""

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

SECOND = timedelta(seconds=1)


@pytest.fixture(scope="module")
def api(shared_stack: Stack, shared_api: Api) -> Api:
    """A client of an API with a worker and two schedulers."""
    shared_stack.web()
    shared_stack.worker()
    shared_stack.scheduler()
    shared_stack.scheduler()
    return shared_api


def interval(api: Api, receiver: Receiver, name: str, path: str, **fields: Any) -> Any:
    spec = {"url": f"{receiver.base_url}{path}", "method": "POST"}
    api.post("/endpoints", {"name": name, "type": "HTTP", "spec": spec})
    return api.post("/jobs", {"endpoint": name, "trigger": "INTERVAL", "every": "1s", **fields})


def successes(api: Api, job: Any, count: int) -> list[Any]:
    """Wait for `count` successful executions, and return the executions in order of their ticks."""

    def enough() -> list[Any]:
        found = api.get(f"/jobs/{job['job_id']}/executions?status=SUCCESS&limit=200")["items"]
        return sorted(found, key=lambda e: e["scheduled_at"]) if len(found) >= count else []

    return eventually(enough, what=f"{count} executions of {job['endpoint']}")


def at(execution: Any, name: str) -> datetime:
    return datetime.fromisoformat(execution[name])


def test_fixed_rate_fixed_delay_and_overlap_skip_keep_their_intervals(api: Api, receiver: Receiver) -> None:
    steady = interval(api, receiver, "steady", "/ok/steady")
    delayed = interval(api, receiver, "delayed", "/slow/500/delayed", fixed_delay=True)
    alone = interval(api, receiver, "alone", "/slow/2500/alone", overlap="skip")

    executions = successes(api, steady, 4)
    assert {at(b, "scheduled_at") - at(a, "scheduled_at") for a, b in pairwise(executions)} == {SECOND}
    assert at(executions[0], "scheduled_at") - datetime.fromisoformat(steady["starts_at"]) == SECOND
    for execution in executions:
        assert at(execution, "started_at") >= at(execution, "scheduled_at")

    for before, after in pairwise(successes(api, delayed, 3)):
        assert at(after, "scheduled_at") - at(before, "completed_at") == SECOND
    for first, second in pairwise(receiver.wait_for(3, path="/slow/500/delayed")):
        # The target responds after 0.5 s, and the delay counts from its response, measured by the target's clock.
        assert second.monotonic - first.monotonic >= 1.5

    for before, after in pairwise(successes(api, alone, 3)):
        assert at(after, "started_at") >= at(before, "completed_at")
    status = api.get(f"/jobs/{alone['job_id']}/status")
    assert status["interval"]["skipped_ticks"]["overlap"] >= 2
    assert status["interval"]["skipped_ticks"]["catch_up"] == 0


def test_paused_job_starts_nothing_and_its_new_version_resumes(api: Api, receiver: Receiver) -> None:
    job = interval(api, receiver, "held", "/ok/held")
    successes(api, job, 2)
    api.post(f"/jobs/{job['job_id']}/pause")

    def waiting() -> list[Any]:
        items = api.get(f"/jobs/{job['job_id']}/executions?limit=200")["items"]
        return [item for item in items if item["status"] not in {"SUCCESS", "PENDING"}]

    eventually(lambda: not waiting(), what="the end of the executions that ran at the pause")
    before = len(receiver.wait_for(0, path="/ok/held"))
    # Ticks of a later job prove that time passes and that workers deliver.
    sentinel = interval(api, receiver, "sentinel", "/ok/sentinel")
    successes(api, sentinel, 3)
    assert len(receiver.wait_for(0, path="/ok/held")) == before

    changed = api.put(f"/jobs/{job['job_id']}", {"every": "2s"})
    assert (changed["status"], changed["version"]) == ("PAUSED", 2)
    api.post(f"/jobs/{changed['job_id']}/resume")
    for first, second in pairwise(successes(api, changed, 2)):
        assert at(second, "scheduled_at") - at(first, "scheduled_at") == 2 * SECOND
    assert api.get(f"/jobs/{job['job_id']}/executions?status=PENDING")["items"] == []
