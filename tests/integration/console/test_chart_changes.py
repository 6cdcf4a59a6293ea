"""Charts: changes that are marked and listed, and times that are kept."""

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import text

from app.console.pages import chart_changes
from app.features.control import shared_figures
from app.features.rollups.rollup_slots import advance
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests.cases import each_case
from tests.endings import Ending, begin_rollups, put_endings
from tests.integration.client import Api
from tests.integration.console.visitor import Visitor
from tests.integration.registered import register

CHART = re.compile(r'data-chart="([^"]+)"')
PAY, OTHER = "https:pay.example:443", "https:other.example:443"


@pytest.fixture
def reader(app: Flask, api: Api, database: Database) -> Visitor:
    """A reader of a delivery, between a change of an endpoint, two breakers that opened, and a worker that started."""
    at = begin_rollups(database, 9) + timedelta(minutes=1)
    register(api, "charge")
    register(api, "mail")
    put_endings(database, [Ending("charge", at, "SUCCESS", late_ms=2, took_ms=20)])
    list(advance(database, 200))
    led = text("INSERT INTO breaker_endpoints (target, endpoint) VALUES (:target, :name)")
    opened = text(
        "INSERT INTO breaker_events (event_id, target, from_state, to_state, reason, occurred_at)"
        " VALUES (:target, :target, 'closed', 'open', 'x', :at)"
    )
    for target, name in ((PAY, "charge"), (OTHER, "mail")):
        database.fetch(led, {"target": target, "name": name})
        database.fetch(opened, {"target": target, "at": at + timedelta(minutes=2)})
    worker_lease.register(database, worker_id="wrk_9", host="h", pid=1, queues=["http"], capacity=9, lease_ms=60_000)
    return Visitor(app, Scope.READ)


def charts(page: str) -> list[dict[str, Any]]:
    assert "This part cannot be shown" not in page
    return [json.loads(unescape(found)) for found in CHART.findall(page)]


def words(page: str) -> str:
    """Return the words of all marks, which all charts of a page share."""
    first, *others = (chart["marks"] for chart in charts(page))
    assert all(each == first for each in others)
    return "; ".join(mark["words"] for mark in first)


def test_changes_are_marked_on_all_charts_and_named_below_them(reader: Visitor) -> None:
    page = reader.get("/console/history?last=1h")
    assert f"breaker open {PAY}" in words(page) or "breaker open (2)" in words(page)
    assert "worker started" in words(page)
    assert "worker lost" not in page, "its lease ends in the future, as does the last step of the charts"
    listed = page.partition("Changes in this time")[2]
    for each in (PAY, OTHER, "wrk_9", "endpoint created", "/console/endpoints/charge"):
        assert each in listed, each


def test_charts_of_an_endpoint_have_its_own_changes_and_those_of_all(reader: Visitor) -> None:
    listed = reader.get("/console/endpoints/charge").partition("Changes in this time")[2]
    assert PAY in listed
    assert OTHER not in listed
    assert "wrk_9" in listed
    assert "/console/endpoints/mail" not in listed


def test_busy_time_shows_its_newest_changes_and_says_so(
    app: Flask, reader: Visitor, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    flapping = text(
        "INSERT INTO breaker_events (event_id, target, from_state, to_state, reason, occurred_at)"
        " SELECT CAST(n AS TEXT), 't', 'closed', 'open', 'x', now() - INTERVAL '30 minutes'"
        "   FROM generate_series(1, 20) AS n"
    )
    database.fetch(flapping)
    monkeypatch.setattr(chart_changes, "MAX_READ", 20)
    page = reader.get("/console/history?last=1h")
    assert "Only changes from" in page
    assert "worker started" in page.partition("Changes in this time")[2]
    monkeypatch.setattr(chart_changes, "PARTS", (1,))
    app.extensions.pop(shared_figures.EXTENSION)
    assert "too many changes to mark" in reader.get("/console/history?last=1h")


def test_time_of_charts_is_kept_and_left(reader: Visitor) -> None:
    page = reader.get("/console/history?last=1h&endpoint=charge")
    pin = unescape(re.findall(r'<a href="([^"]+)" title="Keep this time', page)[0])
    assert "last" not in pin
    kept = reader.get(pin)
    assert charts(kept)[0]["at"] == charts(page)[0]["at"]
    assert 'aria-current="true"' not in kept.partition('aria-label="Period"')[2].partition("</nav>")[0]
    before = unescape(re.findall(r'<a href="([^"]+)" rel="prev"', kept)[0])
    assert "Nobody has counted this time yet" in reader.get(before)
    since = datetime.now(UTC) - timedelta(minutes=30)
    assert (
        'aria-current="true"'
        not in reader.get(f"/console/history?from={since:%Y-%m-%dT%H:%M:%SZ}")
        .partition('aria-label="Period"')[2]
        .partition("</nav>")[0]
    ), "without an end, it lasts until now"
    following = unescape(re.findall(r'<a href="([^"]+)">6h</a>', kept)[0])
    assert "from" not in following


@each_case(
    "query",
    [
        "from=2026-03-15T12:00:00Z&until=2026-03-15T12:00:00Z",
        "from=1990-03-15T12:00:00Z&until=2026-03-15T12:00:00Z",
        "from=x&until=y",
        "until=2026-03-15T12:00:00Z",
    ],
)
def test_malformed_time_of_charts_is_refused(reader: Visitor, query: str) -> None:
    reader.get(f"/console/history?{query}", 400)
