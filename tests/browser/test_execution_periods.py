"""Bars above the list of executions, and charts, in a real browser: both list the deliveries that they count."""

from datetime import timedelta

import pytest
from playwright.sync_api import Browser, expect
from sqlalchemy import text

from app.dev.stack.runner import Stack
from app.features.rollups.rollup_slots import advance
from app.kernel.db import Database
from tests import rows
from tests.browser.tab import PHONE, Tab, tab_of
from tests.endings import Ending, begin_rollups, put_endings


@pytest.fixture(scope="module")
def deliveries(database: Database) -> None:
    rows.add_endpoint(database, "send-mail")
    at = begin_rollups(database, 9) + timedelta(minutes=1)
    outcomes = ("SUCCESS", None), ("SUCCESS", None), ("FAILED", "TIMEOUT")
    put_endings(database, [Ending("send-mail", at, *each, late_ms=2, took_ms=20) for each in outcomes])
    list(advance(database, 200))


@pytest.mark.usefixtures("deliveries")
def test_period_is_chosen_by_keyboard_and_without_javascript(browser: Browser, stack: Stack, key: str) -> None:
    options = {"java_script_enabled": False}, {"viewport": PHONE, "color_scheme": "dark"}
    for option in options:
        with tab_of(browser, stack.url, **option) as tab:
            tab.sign_in(key)
            tab.open("/console/executions?endpoint=send-mail&since=10m")
            bar = tab.page.get_by_role("link", name="3 deliveries, 1 failed for good")
            if "viewport" in option:
                assert tab.violations() == []
                assert not tab.scrolls_sideways()
            bar.focus()
            tab.page.keyboard.press("Enter")
            expect(tab.page.get_by_role("heading", name="Deliveries of send-mail")).to_be_visible()
            expect(tab.page.locator("tbody tr")).to_have_count(3)
            if "viewport" in option:
                assert tab.violations() == []
                assert not tab.scrolls_sideways()
            tab.open("/console/executions?endpoint=nobody")
            expect(tab.page.locator("#region-periods")).to_be_hidden()


@pytest.mark.usefixtures("deliveries")
def test_span_of_a_chart_is_listed_by_dragging_or_without_a_mouse(tab: Tab, database: Database) -> None:
    tab.open("/console/history?last=1h&endpoint=send-mail")
    area = tab.page.locator("#plot-deliveries .u-over").bounding_box()
    assert area is not None
    tab.page.locator("#plot-deliveries .u-over").hover()
    tab.page.mouse.move(area["x"] + area["width"] / 2, area["y"] + 9)
    tab.page.mouse.down()
    tab.page.mouse.move(area["x"] + area["width"] - 2, area["y"] + 9, steps=3)
    tab.page.mouse.up()
    expect(tab.page.get_by_role("heading", name="Deliveries of send-mail")).to_be_visible()
    expect(tab.page.locator("tbody tr")).to_have_count(3)
    tab.page.go_back()
    table = tab.page.locator("#chart-deliveries")
    table.locator("summary").click()
    row = table.locator("tbody tr").filter(has=tab.page.locator("td:nth-child(2):not(:text-is('0'))"))
    row.get_by_role("link").focus()
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator("tbody tr")).to_have_count(3)


@pytest.mark.usefixtures("deliveries")
def test_overview_draws_its_charts(tab: Tab) -> None:
    tab.open("/console?window=1h")
    for name in ("deliveries", "lateness"):
        expect(tab.page.locator(f"#plot-{name} canvas")).to_be_visible()
    tab.page.get_by_role("link", name="All charts").click()
    expect(tab.page.get_by_role("heading", name="Charts", exact=True)).to_be_visible()


@pytest.mark.usefixtures("deliveries")
def test_change_is_named_where_the_pointer_is_over_its_mark(tab: Tab, database: Database) -> None:
    at = rows.database_now(database) - timedelta(minutes=2)
    opened = text(
        "INSERT INTO breaker_events (event_id, target, from_state, to_state, reason, occurred_at)"
        " VALUES ('e', 'https:pay.example:443', 'closed', 'open', 'x', :at) ON CONFLICT DO NOTHING"
    )
    database.fetch(opened, {"at": at})
    tab.open("/console/history?last=5m")
    plot = tab.page.locator("#plot-deliveries")
    area = plot.locator(".u-over").bounding_box()
    assert area is not None
    for share in range(100):
        tab.page.mouse.move(area["x"] + area["width"] * share / 100, area["y"] + 20)
        if "breaker open https:pay.example:443" in plot.locator(".chart-tip").inner_text():
            break
    expect(plot.locator(".chart-tip")).to_contain_text("breaker open https:pay.example:443")
    assert tab.violations() == []


@pytest.mark.usefixtures("deliveries")
def test_lines_of_a_chart_are_named_beside_one_another(tab: Tab) -> None:
    tab.open("/console/history?last=1h")
    names = tab.page.locator("#chart-lateness .line")
    expect(names).to_have_text(["p50", "p95", "p99"])
    places = [names.nth(number).bounding_box() for number in range(3)]
    assert all(place is not None for place in places)
    assert [names.nth(n).evaluate("each => each.scrollWidth <= each.offsetWidth") for n in range(3)] == [True] * 3


RED = """(canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) found += data[at] > data[at + 1] + 60 && data[at] > data[at + 2] + 60;
  return found;
}"""


@pytest.mark.usefixtures("deliveries")
def test_single_value_between_gaps_is_drawn(tab: Tab) -> None:
    tab.open("/console/history?last=1h&endpoint=send-mail")
    assert tab.page.locator("#plot-lateness canvas").evaluate(RED) > 0, "p99, which covers the others"
