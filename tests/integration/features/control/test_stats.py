"""GET /stats: statistics of recent deliveries, from a bounded number of completed executions."""

from typing import Any

import pytest
from sqlalchemy import text

from app.features.control import deliveries
from app.kernel.db import Database, chunked_scan
from tests import rows
from tests.integration.client import Api

NONE = {"p50": None, "p95": None, "p99": None}


def end(database: Database, executions: list[str], status: str, ended: str, *, late_ms: int, took_ms: int) -> None:
    """Complete executions as of `ended` ago, each after one attempt that was `late_ms` late and took `took_ms`."""
    change = f"""
        UPDATE executions SET status = :status, attempt_count = 1, worker_id = 'w', duration_ms = CAST(:took AS BIGINT),
               completed_at = now() - INTERVAL '{ended}', started_at = now() - INTERVAL '{ended}',
               run_at = now() - INTERVAL '{ended}' - CAST(:late AS BIGINT) * INTERVAL '1 millisecond'
         WHERE execution_id = ANY (CAST(:ids AS TEXT[])) RETURNING 1"""
    params = {"status": status, "ids": executions, "late": late_ms, "took": took_ms}
    assert len(database.fetch(text(change), params)) == len(executions)


def get(api: Api, **query: Any) -> dict[str, Any]:
    response = api.get("/stats", **query)
    assert response.status_code == 200, response.get_data(as_text=True)
    found: dict[str, Any] = response.json
    return found


@pytest.mark.parametrize("shards", [1, 16, 17])
def test_report_does_not_depend_on_the_order_of_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch, shards: int
) -> None:
    """UNION ALL promises no order."""
    for name, count in (("busy", 3), ("calm", 2), ("also-calm", 2)):
        rows.add_endpoint(database, name)
        end(database, rows.add_executions(database, count, endpoint=name), "SUCCESS", "5 s", late_ms=2, took_ms=10)
    report, in_order = deliveries.report(database, 60, shards), chunked_scan.in_order
    monkeypatch.setattr(chunked_scan, "in_order", lambda *given: list(in_order(*given))[::-1])
    assert [each.endpoint for each in report.endpoints] == ["busy", "also-calm", "calm"]
    assert report.overall.ended == 7
    assert deliveries.report(database, 60, shards) == report


def test_statistics_cover_recent_deliveries_and_running_executions(api: Api, database: Database) -> None:
    for name in ("busy", "calm", "idle"):
        rows.add_endpoint(database, name)
    nothing = {"ended": 0, "succeeded": 0, "failed": 0, "per_second": 0, "in_flight": 0}
    nothing |= {"lateness_ms": NONE, "duration_ms": NONE}
    assert get(api) == {"covered_seconds": 60, "overall": nothing, "endpoints": []}
    busy = rows.add_executions(database, 100, endpoint="busy")
    end(database, busy[:94], "SUCCESS", "5 seconds", late_ms=2, took_ms=10)
    end(database, busy[94:98], "FAILED", "5 seconds", late_ms=500, took_ms=20)
    end(database, busy[98:], "SUCCESS", "50 seconds", late_ms=4000, took_ms=30)
    calm = rows.add_executions(database, 5, endpoint="calm")
    end(database, calm[:1], "SUCCESS", "5 seconds", late_ms=7, took_ms=1)
    # The execution expired while it waited for another attempt, so its lateness is unknown.
    end(database, calm[1:2], "FAILED", "5 seconds", late_ms=-60_000, took_ms=1)
    never_begun = (
        "UPDATE executions SET status = 'CANCELLED', completed_at = now() WHERE execution_id = :id RETURNING 1"
    )
    database.fetch(text(never_begun), {"id": calm[2]})
    end(database, calm[3:4], "SUCCESS", "2 minutes", late_ms=90_000, took_ms=90_000)
    rows.set_status(database, rows.execution(database, calm[4]).job_id, "RUNNING")

    found = get(api)
    assert found["covered_seconds"] == 60
    assert found["overall"] == {
        "ended": 103,
        "succeeded": 97,
        "failed": 5,
        "per_second": 1.717,
        "lateness_ms": {"p50": 2, "p95": 500, "p99": 4000},
        "duration_ms": {"p50": 10, "p95": 20, "p99": 30},
        "in_flight": 1,
    }
    calm_statistics = {
        "ended": 3,
        "succeeded": 1,
        "failed": 1,
        "per_second": 0.05,
        "lateness_ms": {"p50": 7, "p95": 7, "p99": 7},
        "duration_ms": {"p50": 1, "p95": 1, "p99": 1},
        "in_flight": 1,
    }
    assert [row["endpoint"] for row in found["endpoints"]] == ["busy", "calm"]
    assert found["endpoints"][1] == {"endpoint": "calm", **calm_statistics}
    assert get(api, endpoint="calm") == {"covered_seconds": 60, "overall": calm_statistics, "endpoints": []}
    assert get(api, endpoint="idle")["overall"] == get(api, endpoint="nope")["overall"] == nothing
    assert get(api, seconds=10)["overall"]["lateness_ms"] == {"p50": 2, "p95": 7, "p99": 500}
    assert get(api, seconds=600)["overall"]["duration_ms"]["p99"] == 30
    assert get(api, seconds=600)["overall"]["ended"] == 104


def test_statistics_of_many_deliveries_cover_a_shorter_time(api: Api, database: Database) -> None:
    rows.add_endpoint(database)
    rows.add_executions(database, deliveries.NEWEST + 2_000, shards=2)
    rows.analyze(database)
    # Completions one millisecond apart, up to now, in two shards; the second shard has one in a hundred.
    change = """
        UPDATE executions AS e SET status = 'SUCCESS', completed_at = now() - u.place * INTERVAL '1 millisecond',
               shard = CASE WHEN u.place % 100 = 0 THEN 1 ELSE 0 END
          FROM (SELECT execution_id, row_number() OVER (ORDER BY execution_id) AS place FROM executions) AS u
         WHERE e.execution_id = u.execution_id RETURNING 1"""
    database.fetch(text(change))
    of_one = deliveries.report(database, 3600, 1)
    assert of_one.overall.ended == deliveries.NEWEST
    report = deliveries.report(database, 3600, 16)
    # The report covers both shards, from the oldest completion that was read of the first shard.
    assert deliveries.MIN_OF_SHARD <= report.overall.ended <= deliveries.MIN_OF_SHARD * 1.02
    of_api = get(api, seconds=3600)["overall"]["ended"]
    assert of_api == (report if database.is_cockroach else of_one).overall.ended
    assert deliveries.report(database, 3600, 17).overall.ended == report.overall.ended, (
        "17 shards need the statement for many shards"
    )
    assert report.overall.per_second == round(report.overall.ended / report.covered_seconds, 3)
    assert report.covered_seconds < of_one.covered_seconds < 3600
    assert get(api, seconds=3600, endpoint="target")["overall"]["ended"] == deliveries.NEWEST_OF_ENDPOINT
