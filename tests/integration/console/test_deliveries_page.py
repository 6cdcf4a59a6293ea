"""Page of deliveries: exactly the attempts that charts and bars count, in pages."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest
from flask import Flask

from app.console.pages import deliveries_page
from app.features.rollups.rollup_slots import advance
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.cases import each_case
from tests.endings import ENDPOINTS, Ending, begin_rollups, put_endings, random_endings
from tests.integration.console.visitor import Visitor

ROW = re.compile(r'<tr id="d-([^"]+)"')
LATER = re.compile(r'<a href="([^"]+)">Later</a>')
BAR = re.compile(r'<a id="period-\d+" href="([^"]+)" aria-label="[^"]*: (\d+) deliver')
STEP = re.compile(r'<tr><td class="at"><a href="([^"]+)">')

OLD = datetime(2026, 3, 15, tzinfo=UTC)


@pytest.fixture
def endings(database: Database) -> Sequence[Ending]:
    """Endings of four endpoints within eight minutes, also of executions without an attempt."""
    for name in ENDPOINTS:
        rows.add_endpoint(database, name)
    since = begin_rollups(database, 12)
    found = random_endings(since, since + timedelta(minutes=8), 150)
    put_endings(database, found)
    list(advance(database, 300))
    return found


@pytest.fixture
def reader(app: Flask, database: Database) -> Visitor:
    return Visitor(app, Scope.READ)


def listed(reader: Visitor, address: str) -> list[str]:
    """Return the deliveries of all pages of an address."""
    page = reader.get(address)
    assert "This part cannot be shown" not in page
    found, later = ROW.findall(page), LATER.search(page)
    return found + (listed(reader, unescape(later[1])) if later else [])


@each_case("endpoint", ["", "busy", "rare"])
def test_bars_and_charts_list_the_deliveries_that_they_count(
    reader: Visitor, endings: Sequence[Ending], endpoint: str
) -> None:
    sent = sum(each.is_sent and endpoint in {"", each.endpoint} for each in endings)
    bars = BAR.findall(reader.get(f"/console/executions?since=15m&endpoint={endpoint}"))
    counted = {unescape(address): int(count) for address, count in bars}
    assert {address: len(listed(reader, address)) for address in counted} == counted
    assert sum(counted.values()) == sent
    page = reader.get(f"/console/history?last=1h&endpoint={endpoint}")
    steps = STEP.findall(page.partition('id="chart-deliveries"')[2].partition("</figure>")[0])
    found = [each for address in steps for each in listed(reader, unescape(address))]
    assert len(found) == len(set(found)) == sent


def test_pages_follow_one_another_without_a_gap(
    reader: Visitor, endings: Sequence[Ending], monkeypatch: pytest.MonkeyPatch
) -> None:
    since = min(each.at for each in endings) - timedelta(seconds=1)
    whole = f"/console/deliveries?from={since:%Y-%m-%dT%H:%M:%SZ}"
    every = listed(reader, whole)
    assert len(every) == sum(each.is_sent for each in endings)
    monkeypatch.setattr(deliveries_page, "ROWS", 7)
    assert listed(reader, whole) == every
    assert "First</a>" in reader.get(f"{whole}&after={every[6]}")


def test_rare_endpoint_is_found_behind_others_in_bounded_pages(
    reader: Visitor, endings: Sequence[Ending], monkeypatch: pytest.MonkeyPatch
) -> None:
    since = min(each.at for each in endings) - timedelta(seconds=1)
    monkeypatch.setattr(deliveries_page, "MAX_READS", 0)
    page = reader.get(f"/console/deliveries?from={since:%Y-%m-%dT%H:%M:%SZ}&endpoint=nobody")
    assert "None among the deliveries that were read" in page
    assert LATER.search(page)


@each_case(
    ("query", "words"),
    [
        ("from=2026-03-15T12:00:00Z&until=2026-03-15T12:00:00Z", "Must lie before `until`."),
        ("from=x", "Must be a date and a time"),
        ("after=x", "Open this page from the page before."),
    ],
)
def test_malformed_time_is_refused_in_words(reader: Visitor, query: str, words: str) -> None:
    assert words in reader.get(f"/console/deliveries?{query}", 200 if "after" in query else 400)


def test_time_without_deliveries_says_how_long_executions_are_kept(reader: Visitor) -> None:
    page = reader.get("/console/deliveries?from=2026-03-15T12:00:00Z&until=2026-03-15T13:00:00Z&endpoint=nobody")
    assert "No delivery ended in this time" in page
    assert "TE_RETENTION_DAYS" in page


def test_list_of_a_time_that_is_partly_deleted_says_so(reader: Visitor, endings: Sequence[Ending]) -> None:
    old, new = (
        f"/console/deliveries?from={since:%Y-%m-%dT%H:%M:%SZ}" for since in (OLD, min(each.at for each in endings))
    )
    assert listed(reader, old)
    assert "TE_RETENTION_DAYS" in reader.get(old)
    assert "TE_RETENTION_DAYS" not in reader.get(new)
