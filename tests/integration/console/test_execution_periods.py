"""Periods of the list of executions: bars of deliveries, each a link to the deliveries that it counts."""

import re
from datetime import timedelta
from html import unescape

import pytest
from flask import Flask

from app.features.rollups.rollup_slots import advance
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from tests import rows
from tests.endings import Ending, begin_rollups, put_endings
from tests.integration.console.visitor import Visitor

PATH = "/console/executions"
ROW = re.compile(r'<tr id="d-')
BAR = re.compile(r'<a id="period-\d+" href="([^"]+)" aria-label="([^"]+)"')


@pytest.fixture
def reader(app: Flask, database: Database) -> Visitor:
    """A reader of three deliveries of two endpoints, in different minutes."""
    at = begin_rollups(database, 9) + timedelta(minutes=1, seconds=5)
    for name in ("charge", "mail"):
        rows.add_endpoint(database, name)
    put_endings(
        database,
        [
            Ending("charge", at, "SUCCESS", late_ms=2, took_ms=20),
            Ending("charge", at, "FAILED", "TIMEOUT", late_ms=2, took_ms=20),
            Ending("mail", at + timedelta(minutes=4), "SUCCESS", late_ms=2, took_ms=20),
        ],
    )
    list(advance(database, 200))
    return Visitor(app, Scope.READ)


def bars(reader: Visitor, query: str) -> list[tuple[str, str]]:
    """Return the addresses and the counts of the bars, after a check of their labels."""
    page = reader.get(f"{PATH}?{query}")
    assert "This part cannot be shown" not in page
    found = [(unescape(address), words.partition(": ")[2].partition("; ")) for address, words in BAR.findall(page)]
    assert {listed for _, (_, _, listed) in found} <= {"lists them"}
    return [(address, counts) for address, (counts, _, _) in found]


def test_each_bar_lists_the_deliveries_that_it_counts(reader: Visitor) -> None:
    (first, words), (second, other) = bars(reader, "since=10m&columns=traffic")
    assert (words, other) == ("2 deliveries, 1 failed for good", "1 delivery")
    listed = reader.get(first)
    assert len(ROW.findall(listed)) == 2
    assert "failed for good" in listed
    assert "mail" not in listed.partition("<tbody>")[2].partition("</tbody>")[0]
    narrowed = unescape(reader.get(second).partition('<p class="actions"><a href="')[2].partition('"')[0])
    page = reader.get(narrowed)
    assert "No execution matches this filter" in page, "all were created just now"
    assert len(re.findall(r'<input type="hidden" name="created_(?:after|before)"', page)) == 2
    ((_, kept),) = bars(reader, narrowed.partition("?")[2])
    assert kept == other


def test_bars_are_those_of_the_endpoint(reader: Visitor) -> None:
    ((address, words),) = bars(reader, "since=10m&endpoint=mail")
    assert words == "1 delivery"
    assert "endpoint=mail" in address
    assert bars(reader, "since=10m&endpoint=nobody") == []


@pytest.mark.parametrize("query", ["since=10m&status=FAILED", "labels=a%3Db", "created_after=x", "since=x"])
def test_filters_by_which_nobody_counted_have_no_bars(reader: Visitor, query: str) -> None:
    assert bars(reader, query) == []


@pytest.mark.parametrize("query", ["created_after=2000-01-01T00:00:00Z", "created_after=2099-01-01T00:00:00Z", ""])
def test_time_is_bounded(reader: Visitor, query: str) -> None:
    assert len(bars(reader, query)) <= 2
