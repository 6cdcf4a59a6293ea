"""GET /stats/history and `status --last`: counted slots, gaps, gauges and failures."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import text

from app.features.control.chores import take_sample
from app.features.rollups.rollup_slots import advance
from app.kernel.db import Database
from app.kernel.formats import rfc3339
from app.kernel.processes import worker_lease
from schema.rollup_bounds import LATE_MS, TOOK_MS
from tests import rows
from tests.cases import each_case
from tests.endings import Ending, begin_rollups, put_endings
from tests.integration.client import Api
from tests.integration.command_line import Cli

COUNTS = ("attempts", "succeeded", "retried", "failed", "cancelled", "unsent", "uncertain", "lost")


@pytest.fixture
def minute(database: Database) -> datetime:
    """A counted minute in which `busy` and `calm` delivered; the counted time begins a minute before."""
    for name in ("busy", "calm"):
        rows.add_endpoint(database, name)
    found = begin_rollups(database, 4) + timedelta(minutes=1)
    late = Ending("calm", found, "CANCELLED", "ABORTED", late_ms=4_000_000, took_ms=1)
    slow = Ending(
        "busy", found + timedelta(seconds=20), "FAILED", "TIMEOUT", is_uncertain=True, late_ms=7, took_ms=400_000
    )
    put_endings(
        database,
        [
            *(Ending("busy", found, "SUCCESS", late_ms=2, took_ms=20) for _ in range(97)),
            replace(slow, is_uncertain=True),
            late,
            Ending("calm", found, "FAILED", "EXPIRED", is_sent=False),
        ],
    )
    list(advance(database, 200))
    return found


def get(api: Api, **query: Any) -> dict[str, Any]:
    response = api.get("/stats/history", **query)
    assert response.status_code == 200, response.get_data(as_text=True)
    found: dict[str, Any] = response.json
    return found


def counts_of(point: dict[str, Any]) -> tuple[int | None, ...]:
    return tuple(point[name] for name in COUNTS)


def test_points_have_counts_percentiles_and_failures(api: Api, minute: datetime) -> None:
    asked = {"from": rfc3339(minute - timedelta(minutes=1)), "until": rfc3339(minute + timedelta(minutes=2))}
    found = get(api, **asked, step=60)
    assert (found["from"], found["until"], found["step_seconds"]) == (*asked.values(), 60)
    assert (found["lateness_bounds_ms"], found["duration_bounds_ms"]) == ([*LATE_MS], [*TOOK_MS])
    quiet, busy, after = found["points"]
    assert counts_of(quiet) == counts_of(after) == (0,) * 8
    assert counts_of(busy) == (99, 97, 0, 2, 1, 1, 1, 0)
    assert busy["at"] == rfc3339(minute)
    assert busy["counted_seconds"] == 60
    assert busy["lateness_ms"] == {"p50": 5, "p95": 5, "p99": 3_600_001}
    assert busy["duration_ms"] == {"p50": 25, "p95": 25, "p99": 300_001}
    assert found["failures"] == [
        {"error_type": "EXPIRED", "failed": 1, "retried": 0, "uncertain": 0},
        {"error_type": "TIMEOUT", "failed": 1, "retried": 0, "uncertain": 1},
        {"error_type": "ABORTED", "failed": 0, "retried": 0, "uncertain": 0},
    ]


def test_endpoint_without_a_delivery_in_a_counted_slot_has_zero(api: Api, minute: datetime) -> None:
    asked = {"from": rfc3339(minute), "until": rfc3339(minute + timedelta(seconds=30))}
    found = get(api, **asked, endpoint="calm", step=10, histograms=True)
    assert [counts_of(each)[:4] for each in found["points"]] == [(1, 0, 0, 1), (0,) * 4, (0,) * 4]
    assert found["points"][0]["lateness_ms"] == {"p50": 3_600_001, "p95": 3_600_001, "p99": 3_600_001} | {
        "counts": [*(0 for _ in LATE_MS), 1]
    }
    assert found["endpoint"] == "calm"
    busy = get(api, **asked, endpoint="busy", step=30)
    assert [counts_of(each) for each in busy["points"]] == [(98, 97, 0, 1, 0, 0, 1, 0)]


def test_uncounted_time_is_a_gap_and_not_zero(api: Api, minute: datetime) -> None:
    begin = minute - timedelta(minutes=1)
    found = get(api, **{"from": rfc3339(begin - timedelta(minutes=1)), "until": rfc3339(begin)}, step=10)
    for point in found["points"]:
        assert point["counted_seconds"] == 0
        assert counts_of(point) == (None,) * 8
        assert (point["lateness_ms"], point["due"], point["slots"]) == (None, None, None)
    whole = get(api, last="1h", step=60)
    assert datetime.fromisoformat(whole["counted_until"]) > minute
    gaps = [point for point in whole["points"] if point["counted_seconds"] == 0]
    assert {point["attempts"] for point in gaps} == {None}
    assert sum(point["attempts"] or 0 for point in whole["points"]) == 99


def test_slot_has_one_sample_of_each_queue(api: Api, database: Database, minute: datetime) -> None:
    worker_lease.register(database, worker_id="w1", host="h", pid=7, queues=["http"], capacity=9, lease_ms=60_000)
    rows.add_executions(database, 3, due_in=timedelta(seconds=-5), endpoint="calm")
    assert take_sample(database, 1) >= 2
    # A next slot may begin between two calls, so the stored slot is moved ahead and then back.
    database.fetch(text("UPDATE queue_samples SET slot = slot + INTERVAL '20 seconds'"))
    assert take_sample(database, 1) == 0, "the slot has its sample"
    database.fetch(text("UPDATE queue_samples SET slot = slot - INTERVAL '40 seconds'"))
    rows.add_executions(database, 2, due_in=timedelta(seconds=-5), endpoint="calm")
    assert take_sample(database, 1) >= 2
    fleet = [each for each in get(api, last="2m", step=10)["points"] if each["due"] is not None]
    assert sorted(each["due"] for each in fleet) == [3, 5]
    assert {(each["workers"], each["in_flight"], each["slots"]) for each in fleet} == {(1, 0, 9)}
    http = [each for each in get(api, last="2m", step=10, queue="http")["points"] if each["due"] is not None]
    assert {each["slots"] for each in http} == {None}
    assert all(each["oldest_due_ms"] >= 5000 for each in http)


def test_step_of_several_slots_has_their_time_and_the_most_of_each_gauge(
    api: Api, database: Database, minute: datetime
) -> None:
    put = text(
        """
        INSERT INTO queue_samples (queue, step_s, slot, due, oldest_ms, workers, in_flight, slots)
        VALUES ('', 10, :at, 3, 90, 2, NULL, 9), ('', 10, :then, 5, 70, 1, 4, 8) RETURNING queue
        """
    )
    database.fetch(put, {"at": minute, "then": minute + timedelta(seconds=10)})
    found = get(api, **{"from": rfc3339(minute), "until": rfc3339(minute + timedelta(seconds=40))}, step=20)
    names = ("counted_seconds", "attempts", "due", "oldest_due_ms", "workers", "in_flight", "slots")
    assert [[point[name] for name in names] for point in found["points"]] == [
        [20, 98, 5, 90, 2, 4, 9],
        [20, 1, None, None, None, None, None],
    ]


@each_case(
    ("query", "pointer"),
    [
        ({"step": 15}, "step"),
        ({"step": 10, "last": "24h"}, "step"),
        ({"from": "2026-01-01T00:00:00Z", "until": "2025-01-01T00:00:00Z"}, "from"),
        ({"last": "0s"}, "last"),
    ],
)
def test_refused_ranges_name_the_field(api: Api, query: dict[str, Any], pointer: str) -> None:
    response = api.get("/stats/history", **query)
    assert response.status_code == 400
    assert [each["pointer"] for each in response.json["error"]["details"]] == [pointer]


def test_status_shows_charts_of_the_past(cli: Cli, minute: datetime) -> None:
    shown = cli.run("status", "--last", "2h").stdout
    for part in ("attempts /s", "late p99", "> 1 h", "a space where nobody counted", "TIMEOUT", "EXPIRED"):
        assert part in shown
    assert "busy" in cli.run("status", "--last", "2h", "--endpoint", "busy").stdout
    found = json.loads(cli.run("status", "--last", "2h", "--json").stdout)
    assert sum(point["attempts"] or 0 for point in found["points"]) == 99
    assert "--last" in cli.run("status", "--endpoint", "busy", expect=2).stderr


def test_status_says_how_to_count_a_past_that_nobody_counted(cli: Cli, database: Database) -> None:
    assert "stats rebuild" in cli.run("status", "--last", "2h").stdout


def test_rebuild_counts_the_hours_that_are_kept(cli: Cli, database: Database, minute: datetime) -> None:
    database.fetch(text("DELETE FROM delivery_rollups"))
    done = cli.json("stats", "rebuild", "--since", "3h", "--full-speed")
    assert done["hours"] in {2, 3}  # the counted time ends minutes before now, so perhaps in the last hour
    query = "SELECT sum(attempts) AS n FROM delivery_rollups WHERE step_s = 3600 AND endpoint = ''"
    assert database.fetch(text(query))[0].n == 99
    database.fetch(text("DELETE FROM rollup_marks"))
    assert "0 hours" in cli.run("stats", "rebuild", "--since", "400d").stdout
