"""Status and next runs of a job."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.sql import REGISTRY
from app.queue.jobs.job_status import status_of
from tests import rows
from tests.integration.client import Api, problem
from tests.integration.registered import created, cron, interval, one_shot, register
from tests.integration.statements import Statements


def add_completed(database: Database, job_id: str, status: str, durations: list[int], *, ago: str = "1 hour") -> None:
    """Give a job completed executions with these durations; `ago` is an interval before now."""
    executions = rows.add_executions(database, len(durations), max_attempts=1)
    database.fetch(
        text(
            f"""
            UPDATE executions AS e
               SET job_id = :job, status = :status, attempt_count = 1, worker_id = 'w', duration_ms = u.duration,
                   created_at = now() - INTERVAL '{ago}', started_at = now() - INTERVAL '{ago}',
                   completed_at = now() - INTERVAL '{ago}'
              FROM unnest(CAST(:ids AS TEXT[]), CAST(:durations AS BIGINT[])) AS u (id, duration)
             WHERE e.execution_id = u.id
            """
        ),
        {"job": job_id, "status": status, "ids": executions, "durations": durations},
    )


def status(api: Api, job: dict[str, Any]) -> Any:
    response = api.get(f"/jobs/{job['job_id']}/status")
    assert response.status_code == 200
    return response.json


def test_status_of_a_new_job_is_idle(api: Api) -> None:
    register(api)
    job = created(api, cron())
    assert status(api, job) == {
        "job_id": job["job_id"],
        "endpoint": "target",
        "endpoint_type": "HTTP",
        "trigger": "CRON",
        "status": "ACTIVE",
        "health": "IDLE",
        "version": 1,
        "last_execution": None,
        "active_executions": {"pending": 0, "running": 0, "total": 0},
        "cron": {
            "expression": "0 9 * * MON",
            "timezone": "Asia/Kolkata",
            "next_run_at": job["next_run_at"],
            "last_tick_at": None,
            "skipped_ticks": {"catch_up": 0, "overlap": 0},
        },
        "stats": {
            "last_24h": {"total": 0, "succeeded": 0, "failed": 0, "avg_duration_ms": None, "p99_duration_ms": None}
        },
    }


def test_statistics_cover_the_last_24_hours(api: Api, database: Database) -> None:
    register(api)
    job = created(api, cron())
    add_completed(database, job["job_id"], "SUCCESS", [100] * 197, ago="2 hours")
    add_completed(database, job["job_id"], "FAILED", [700, 800, 900], ago="1 hour")
    add_completed(database, job["job_id"], "FAILED", [9999] * 50, ago="25 hours")
    add_completed(database, job["job_id"], "CANCELLED", [5], ago="3 hours")
    found = status(api, job)
    assert found["health"] == "HEALTHY"
    assert found["stats"]["last_24h"] == {
        "total": 200,
        "succeeded": 197,
        "failed": 3,
        "avg_duration_ms": round((19700 + 2400) / 200),
        "p99_duration_ms": 700,
    }
    assert found["last_execution"]["status"] == "FAILED"
    assert found["last_execution"]["attempt_number"] == 1


@pytest.mark.parametrize(
    ("succeeded", "failed", "health"),
    [(1, 0, "HEALTHY"), (95, 5, "HEALTHY"), (94, 6, "DEGRADED"), (50, 50, "DEGRADED"), (49, 51, "FAILING")],
)
def test_health_depends_on_the_share_of_successes(
    api: Api, database: Database, succeeded: int, failed: int, health: str
) -> None:
    register(api)
    job = created(api, interval())
    add_completed(database, job["job_id"], "SUCCESS", [1] * succeeded)
    add_completed(database, job["job_id"], "FAILED", [1] * failed)
    assert status(api, job)["health"] == health


def test_status_of_a_one_shot_job_counts_its_active_and_completed_execution(api: Api, database: Database) -> None:
    register(api)
    job = created(api, one_shot("k", trigger="DELAYED", run_at="2090-01-01T00:00:00Z"))
    found = status(api, job)
    assert found["active_executions"] == {"pending": 1, "running": 0, "total": 1}
    assert "cron" not in found
    assert "interval" not in found
    # An execution of 40 days ago that completed today belongs to the last 24 hours.
    database.fetch(
        text(
            "UPDATE executions SET status = 'SUCCESS', created_at = now() - INTERVAL '40 days', started_at = now(), "
            "completed_at = now(), worker_id = 'w', attempt_count = 1, duration_ms = 12"
        )
    )
    found = status(api, job)
    assert found["active_executions"]["total"] == 0
    assert (found["health"], found["stats"]["last_24h"]["total"]) == ("HEALTHY", 1)
    problem(api.get("/jobs/job_none/status"), 404, "JOB_NOT_FOUND")


@pytest.mark.postgresql_only
def test_status_reads_a_bounded_part_of_a_long_history(api: Api, database: Database, statements: Statements) -> None:
    """Check the plan rather than the time: index scans only, and few buffers."""
    register(api)
    job = created(api, cron())
    rows.add_executions(database, 5_000)
    add_completed(database, job["job_id"], "SUCCESS", [1] * 20_000, ago="30 days")
    add_completed(database, job["job_id"], "CANCELLED", [1] * 3_000)
    database.fetch(text("UPDATE executions SET started_at = NULL WHERE status = 'CANCELLED'"))
    add_completed(database, job["job_id"], "SUCCESS", [1] * 10)
    database.fetch(text("ANALYZE executions"))
    statements.clear()
    assert status(api, job)["stats"]["last_24h"]["total"] == 10
    statistics = next(sql for sql in statements.texts if "percentile_disc" in sql)
    params = {"job_id": job["job_id"], "created_within_ms": 48 * 3_600_000, "newest": 5_000}
    with database.engine.begin() as connection:
        connection.execute(REGISTRY["lists.read_in_order"])
        plan = "\n".join(
            row[0] for row in connection.exec_driver_sql(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {statistics}", params)
        )
    assert "Seq Scan" not in plan
    assert "idx_executions_open" in plan
    assert max(int(word.split("=")[1]) for word in plan.split() if word.startswith("hit=")) < 500, plan


def test_statistics_cover_only_the_newest_executions(api: Api, database: Database) -> None:
    register(api)
    job = created(api, cron())
    add_completed(database, job["job_id"], "FAILED", [1] * 20, ago="2 hours")
    add_completed(database, job["job_id"], "SUCCESS", [1] * 8, ago="1 hour")
    statistics = status_of(database, job["job_id"], newest=10).stats
    assert (statistics.succeeded, statistics.failed) == (8, 2)


def test_next_runs_are_listed_for_each_trigger(api: Api) -> None:
    register(api)
    weekly = created(api, cron(ends_at="2090-01-01T00:00:00Z", starts_at="2089-12-20T00:00:00Z"))
    found = api.get(f"/jobs/{weekly['job_id']}/next-runs").json
    assert found["timezone"] == "Asia/Kolkata"
    assert [run["local_time"] for run in found["runs"]] == ["2089-12-26T09:00:00+05:30"]
    assert found["runs"][0]["run_at"] == "2089-12-26T03:30:00Z"

    often = created(api, interval(every="10s", starts_at="2090-01-01T00:00:00Z"))
    found = api.get(f"/jobs/{often['job_id']}/next-runs", count=3).json
    assert [run["run_at"] for run in found["runs"]] == [f"2090-01-01T00:00:{second}Z" for second in ("00", "10", "20")]

    after_end = created(api, interval(fixed_delay=True))
    assert len(api.get(f"/jobs/{after_end['job_id']}/next-runs").json["runs"]) == 1

    delayed = created(api, one_shot("k", trigger="DELAYED", run_at="2090-01-01T00:00:00Z"))
    found = api.get(f"/jobs/{delayed['job_id']}/next-runs").json
    run = {"run_at": "2090-01-01T00:00:00Z", "local_time": "2090-01-01T00:00:00Z", "note": None}
    assert found == {"timezone": "UTC", "runs": [run]}
    api.post(f"/jobs/{delayed['job_id']}/cancel")
    assert api.get(f"/jobs/{delayed['job_id']}/next-runs").json["runs"] == []
    api.post(f"/jobs/{often['job_id']}/pause")
    assert api.get(f"/jobs/{often['job_id']}/next-runs").json["runs"] == []
    for count in ("0", "101", "x"):
        problem(api.get(f"/jobs/{often['job_id']}/next-runs", count=count), 400, "INVALID_REQUEST")


def test_next_run_moved_by_a_clock_change_has_a_note(api: Api) -> None:
    register(api)
    job = created(api, cron(cron="30 2 * * *", timezone="Europe/Berlin", starts_at="2027-03-27T12:00:00Z"))
    run, *_ = api.get(f"/jobs/{job['job_id']}/next-runs").json["runs"]
    assert run["local_time"] == "2027-03-28T03:00:00+02:00"
    assert "do not exist" in run["note"]


def test_next_run_is_in_the_timezone_of_the_job(api: Api) -> None:
    register(api)
    job = created(api, cron())
    assert datetime.fromisoformat(status(api, job)["cron"]["next_run_at"]).utcoffset() == timedelta(hours=5, minutes=30)
