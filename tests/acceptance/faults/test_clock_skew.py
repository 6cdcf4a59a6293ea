"""Processes with wrong clocks, fast or slow: the clock of the database decides."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from app.dev.receiver import Receiver
from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.dev.verify import clock
from app.kernel.db import Database
from app.kernel.processes import process_heartbeat
from app.kernel.processes.process_heartbeat import ProcessKind
from tests import rows
from tests.acceptance.limits import SHORT_LEASE
from tests.waiting import eventually

pytestmark = pytest.mark.acceptance

SETTINGS = {"TE_LOOK_AHEAD_SEC": "1"} | SHORT_LEASE
POLICY = {"max_attempts": 3, "backoff": "fixed", "initial_delay_ms": 1000}
DAY = timedelta(days=1)
SHORTEST_WAIT = timedelta(milliseconds=750)  # with the most jitter


@pytest.mark.parametrize("ahead", [5, -5])
def test_no_attempt_starts_early_or_is_lost_with_wrong_clocks(
    database: Database, stack: Stack, api: Api, receiver: Receiver, ahead: int
) -> None:
    path = f"/flaky/1/skew{ahead}"
    stack.web(**SETTINGS, **clock.environment(ahead))
    worker = stack.worker(**SETTINGS, **clock.environment(ahead))
    scheduler = stack.scheduler(**SETTINGS, **clock.environment(-ahead))
    spec = {"url": f"{receiver.base_url}{path}", "method": "POST"}
    # Each first attempt fails, which could open a breaker.
    endpoint = {"name": "target", "type": "HTTP", "spec": spec, "retry_policy": POLICY, "breaker": "off"}
    api.post("/endpoints", endpoint)
    run_at = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
    api.post("/jobs", {"endpoint": "target", "trigger": "IMMEDIATE", "idempotency_key": "now"})
    api.post("/jobs", {"endpoint": "target", "trigger": "DELAYED", "idempotency_key": "later", "run_at": run_at})
    every = api.post("/jobs", {"endpoint": "target", "trigger": "INTERVAL", "every": "1s"})
    eventually(lambda: rows.statuses(database).get("SUCCESS", 0) >= 5, what="five successes")
    api.post(f"/jobs/{every['job_id']}/cancel")
    eventually(
        lambda: set(rows.statuses(database)) <= {"SUCCESS", "CANCELLED"}, what="the final status of all executions"
    )

    arrived = {
        (sent.idempotency_key, int(sent.headers["X-Task-Executor-Attempt"])): datetime.fromtimestamp(sent.time, UTC)
        for sent in receiver.wait_for(0, path=path)
    }
    for execution in database.fetch(text("SELECT * FROM executions WHERE status = 'SUCCESS'")):
        first, second = rows.attempts(database, execution.execution_id)
        assert execution.scheduled_at <= first.started_at <= arrived[execution.execution_id, 1]
        assert first.completed_at + SHORTEST_WAIT <= second.started_at <= arrived[execution.execution_id, 2]
    assert worker.is_running, worker.tail()
    assert scheduler.is_running, scheduler.tail()
    clocks = {process.kind: process.clock for process in process_heartbeat.processes(database)}
    wrong_by = {ProcessKind.WEB: ahead, ProcessKind.WORKER: ahead, ProcessKind.SCHEDULER: -ahead}
    assert clocks.keys() == wrong_by.keys(), "a process does not report its clock"
    for kind, found in clocks.items():
        assert found is not None
        assert abs(found.ahead - timedelta(seconds=wrong_by[kind])) <= found.bound, kind


@pytest.mark.parametrize("ahead", [3 * DAY, -3 * DAY], ids=["fast", "slow"])
def test_repeating_job_starts_and_is_counted_by_the_database_clock(
    database: Database, stack: Stack, api: Api, ahead: timedelta
) -> None:
    stack.web(**clock.environment(ahead.total_seconds()))
    api.post("/endpoints", {"name": "target", "type": "HTTP", "spec": {"url": "http://127.0.0.1:9/", "method": "POST"}})
    hourly = {"endpoint": "target", "trigger": "INTERVAL", "every": "1h"}
    on_the_hour = {"endpoint": "target", "trigger": "CRON", "cron": "0 * * * *", "timezone": "UTC"}
    before = rows.database_now(database)
    jobs = [api.post("/jobs", job) for job in (hourly, on_the_hour)]
    jobs += [item["job"] for item in api.post("/jobs/batch", {"jobs": [hourly, on_the_hour]})["items"]]
    for job in jobs:
        starts_at, created_at, tick = (
            datetime.fromisoformat(job[name]) for name in ("starts_at", "created_at", "next_run_at")
        )
        assert before <= starts_at <= created_at
        assert starts_at < tick <= starts_at + timedelta(hours=1)
        rows.add_tick(database, job["job_id"], "SUCCESS")
        assert api.get(f"/jobs/{job['job_id']}/status")["stats"]["last_24h"]["total"] == 1
