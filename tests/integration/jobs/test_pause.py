"""Pause and resume of a job: waiting executions are held, and ticks stop until the job is resumed."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.queue.executions.on_hold import BATCH, hold_retries
from app.queue.jobs.job_pause import begin_pause
from tests import rows
from tests.integration.client import Api, pointers, problem
from tests.integration.jobs.stored import status_of
from tests.integration.registered import created, cron, interval, one_shot, register


def test_pause_holds_waiting_executions_and_stops_ticks(api: Api, database: Database) -> None:
    register(api)
    job = created(api, cron(cron="* * * * *", timezone="UTC"))
    now, later = (
        rows.add_tick(database, job["job_id"]),
        rows.add_tick(database, job["job_id"], "PENDING", due_in=timedelta(hours=1)),
    )
    paused = api.post(f"/jobs/{job['job_id']}/pause")
    assert paused.status_code == 200
    assert (paused.json["status"], paused.json["next_run_at"]) == ("PAUSED", None)
    assert status_of(database, now) == status_of(database, later) == ("PENDING", True)
    again = api.post(f"/jobs/{job['job_id']}/pause")
    assert again.json == paused.json
    assert [item["job_id"] for item in api.get("/jobs", status="PAUSED").json["items"]] == [job["job_id"]]

    resumed = api.post(f"/jobs/{job['job_id']}/resume")
    assert (resumed.json["status"], resumed.json["paused_at"]) == ("ACTIVE", None)
    assert datetime.fromisoformat(resumed.json["next_run_at"]) > rows.database_now(database)
    assert status_of(database, now) == ("QUEUED", False)
    assert status_of(database, later) == ("PENDING", False)
    assert api.post(f"/jobs/{job['job_id']}/resume").json["status"] == "ACTIVE"


def test_refused_pause_of_a_job_whose_last_run_is_ahead_says_how_to_stop_the_run(api: Api, database: Database) -> None:
    register(api)
    job = created(api, interval())
    last = rows.add_tick(database, job["job_id"], due_in=timedelta(seconds=4))
    query = "UPDATE jobs SET status = 'RETIRED', retired_at = now(), ended_at = now(), end_reason = 'NO_TICK_LEFT'"
    database.fetch(text(f"{query}, cron_next_run_at = NULL"))
    refused = problem(api.post(f"/jobs/{job['job_id']}/pause"), 409, "CONFLICT")
    assert "because no tick was left, and cannot be paused" in refused["message"]
    assert f"to stop it, use POST /executions/{last}/cancel." in refused["message"]


@pytest.mark.parametrize("change", ["pause", "update"])
@pytest.mark.parametrize(
    ("body", "block", "missed"),
    [
        (cron(cron="* * * * *", timezone="UTC"), "cron", 2),
        (interval(every="1m"), "interval", 3),
        (interval(every="1m", fixed_delay=True), "interval", 1),
    ],
    ids=["cron", "interval", "fixed delay"],
)
def test_ticks_missed_before_a_pause_or_an_update_are_counted_as_skipped(
    api: Api, database: Database, body: dict[str, Any], block: str, missed: int, change: str
) -> None:
    register(api)
    job = created(api, body)
    late = "date_trunc('minute', now()) - INTERVAL '1 minute' - INTERVAL '1 second' * :more"
    move = f"cron_starts_at = {late}, cron_next_run_at = {late}"
    database.fetch(text(f"UPDATE jobs SET {move}"), {"more": 0 if block == "cron" else 90})

    def skipped() -> dict[str, int]:
        of_ticks: dict[str, int] = api.get(f"/jobs/{job['job_id']}/status").json[block]["skipped_ticks"]
        return of_ticks

    if change == "update":
        assert api.put(f"/jobs/{job['job_id']}", {"name": "b"}).status_code == 200
    else:
        api.post(f"/jobs/{job['job_id']}/pause")
        before = skipped()
        api.post(f"/jobs/{job['job_id']}/pause")
        assert skipped() == before, "the second pause counted again"
    a_minute_may_begin = 0 if "fixed_delay" in body else 1
    assert missed <= skipped()["catch_up"] <= missed + a_minute_may_begin
    assert skipped()["overlap"] == 0


def pass_seconds(database: Database, seconds: int) -> None:
    """Move the instants of all jobs and executions into the past; ticks that lay ahead get the keys of schedulers."""
    at = "scheduled_at - :span"
    key = f"job_id || '_' || CAST(EXTRACT(EPOCH FROM {at}) * 1000 AS BIGINT)"
    for update in (
        f"executions SET idempotency_key = {key} WHERE scheduled_at > created_at",
        f"executions SET scheduled_at = {at}, run_at = run_at - :span, created_at = created_at - :span",
        "jobs SET paused_at = paused_at - :span, cron_last_tick_at = cron_last_tick_at - :span",
    ):
        database.fetch(text(f"UPDATE {update}"), {"span": timedelta(seconds=seconds)})


def test_tick_materialised_ahead_that_falls_into_the_pause_is_skipped(api: Api, database: Database) -> None:
    register(api)
    for body in (interval(), interval(fixed_delay=True)):
        job = created(api, body)
        before = rows.add_tick(database, job["job_id"])
        ahead = rows.add_tick(database, job["job_id"], due_in=timedelta(seconds=4))
        behind = rows.add_tick(database, job["job_id"], due_in=timedelta(hours=1))
        moved = rows.add_tick(database, job["job_id"], due_in=timedelta(seconds=5))  # waited at the pause
        database.fetch(text("UPDATE executions SET run_at = now() WHERE execution_id = :id"), {"id": moved})
        api.post(f"/jobs/{job['job_id']}/pause")
        manual = api.post(f"/jobs/{job['job_id']}/run").json["execution_id"]
        pass_seconds(database, 10)
        resumed = api.post(f"/jobs/{job['job_id']}/resume").json
        assert resumed["next_run_at"] is not None
        for kept in (before, moved, manual):
            assert status_of(database, kept) == ("QUEUED", False)
        assert status_of(database, ahead) == ("CANCELLED", False)
        assert status_of(database, behind) == ("PENDING", False)
        last = api.get(f"/executions/{ahead}/history").json["items"][-1]
        assert (last["to"], last["reason"]) == ("CANCELLED", "JOB_PAUSED")
        explained = api.get(f"/executions/{ahead}/explain").json
        assert (explained["reason"], "fell into a pause" in explained["explanation"]) == ("CANCELLED", True)


def test_tick_is_skipped_too_that_a_pause_of_many_executions_has_not_put_on_hold_yet(
    api: Api, database: Database
) -> None:
    register(api)
    job_id = created(api, interval())["job_id"]
    tick = rows.add_tick(database, job_id)
    columns = (
        "job_id, endpoint, endpoint_version, endpoint_type, queue, shard, status, scheduled_at, run_at, created_at"
    )
    database.fetch(
        text(
            f"INSERT INTO executions (execution_id, {columns}) SELECT 'a' || n, {columns} "
            "FROM executions, generate_series(1, :batch) AS n WHERE execution_id = :tick"
        ),
        {"tick": tick, "batch": BATCH},
    )
    ahead = rows.add_tick(database, job_id, due_in=timedelta(seconds=4))
    database.transact(partial(begin_pause, job_id=job_id, actor="ann"))
    assert status_of(database, ahead) == ("QUEUED", False)
    pass_seconds(database, 10)
    api.post(f"/jobs/{job_id}/resume")
    assert status_of(database, ahead) == ("CANCELLED", False)
    assert status_of(database, tick) == ("QUEUED", False)


def test_later_cancellation_is_not_explained_by_a_pause(api: Api, database: Database) -> None:
    register(api)
    job_id = created(api, interval())["job_id"]
    tick = rows.add_tick(database, job_id)
    api.post(f"/jobs/{job_id}/pause")
    api.post(f"/jobs/{job_id}/resume")
    database.fetch(
        text("UPDATE executions SET status = 'CANCELLED', completed_at = now() WHERE execution_id = :id"), {"id": tick}
    )
    assert "pause" not in api.get(f"/executions/{tick}/explain").json["explanation"]


def test_retries_of_executions_running_at_the_pause_are_held(api: Api, database: Database) -> None:
    register(api)
    job = created(api, cron())
    failed = rows.add_tick(database, job["job_id"])
    api.post(f"/jobs/{job['job_id']}/pause")
    manual = api.post(f"/jobs/{job['job_id']}/run").json["execution_id"]
    for execution_id in (failed, manual):
        database.fetch(
            text(
                "UPDATE executions SET status = 'RETRYING', on_hold = false, attempt_count = 1, max_attempts = 3 "
                "WHERE execution_id = :id"
            ),
            {"id": execution_id},
        )
    assert hold_retries(database) == 1
    assert status_of(database, failed) == ("PENDING", True)
    assert status_of(database, manual) == ("RETRYING", False)


def test_paused_one_shot_job_can_be_cancelled(api: Api, database: Database) -> None:
    register(api)
    job = created(api, one_shot("k"))
    execution_id = job["execution"]["execution_id"]
    api.post(f"/jobs/{job['job_id']}/pause")
    assert status_of(database, execution_id) == ("PENDING", True)
    cancelled = api.post(f"/jobs/{job['job_id']}/cancel").json
    assert (cancelled["status"], cancelled["paused_at"]) == ("RETIRED", None)
    assert status_of(database, execution_id) == ("CANCELLED", False)
    for verb in ("pause", "resume", "run"):
        problem(api.post(f"/jobs/{job['job_id']}/{verb}"), 409, "CONFLICT")
        problem(api.post(f"/jobs/job_none/{verb}"), 404, "JOB_NOT_FOUND")


def test_job_that_ended_during_its_pause_is_retired_when_resumed(api: Api, database: Database) -> None:
    register(api)
    job = created(api, interval(ends_at="2090-01-01T00:00:00Z"))
    api.post(f"/jobs/{job['job_id']}/pause")
    database.fetch(text("UPDATE jobs SET cron_ends_at = now()"))
    resumed = api.post(f"/jobs/{job['job_id']}/resume").json
    assert resumed["status"] == "RETIRED"
    assert resumed["retired_at"] is not None


def test_patch_pauses_resumes_or_updates(api: Api) -> None:
    register(api)
    job = created(api, cron())
    path = f"/jobs/{job['job_id']}"
    assert api.send("PATCH", path, json={"status": "PAUSED"}).json["status"] == "PAUSED"
    assert api.send("PATCH", path, json={"status": "ACTIVE"}).json["status"] == "ACTIVE"
    for body in ({"status": "RETIRED"}, {"status": "PAUSED", "cron": "* * * * *"}):
        assert pointers(problem(api.send("PATCH", path, json=body), 400, "INVALID_REQUEST")) == ["/status"]
    new = api.send("PATCH", path, json={"cron": "0 10 * * MON"}).json
    assert (new["version"], new["cron"]) == (2, "0 10 * * MON")
    problem(api.send("PATCH", path, json={"status": "PAUSED"}), 409, "CONFLICT")
