"""An open page after the kill of its web process: the page says so, keeps its content, and follows changes again."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from app.dev.stack.runner import Stack
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests.browser.tab import Tab, tab_of

PATIENCE_MS = 60_000  # a browser waits longer after each failed connection


def start_worker(database: Database, name: str) -> None:
    worker_lease.register(database, worker_id=name, host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)


def said(page: Page, text: str) -> None:
    expect(page.locator("#live")).to_have_text(text, timeout=PATIENCE_MS)


@pytest.fixture
def live(tab: Tab, database: Database) -> Iterator[Page]:
    """A page that follows changes by its stream; htmx may log failed requests."""
    start_worker(database, "wrk_before")
    tab.open("/console/processes")
    said(tab.page, "live")
    yield tab.page
    tab.faults = [fault for fault in tab.faults if "htmx:error: Failed to fetch" not in fault]


def test_page_whose_web_process_is_killed_says_so_and_resumes(live: Page, stack: Stack, database: Database) -> None:
    stack.kill("web")
    said(live, "not answering")
    expect(live.locator("#region-workers")).to_have_class("region stale")
    expect(live.locator("#wrk_before")).to_be_visible()
    start_worker(database, "wrk_meanwhile")
    stack.start_process("web")
    said(live, "live")
    expect(live.locator("#wrk_meanwhile")).to_be_visible()
    expect(live.locator("#region-workers")).to_have_class("region")
    start_worker(database, "wrk_afterwards")
    expect(live.locator("#wrk_afterwards")).to_be_visible(timeout=10_000)


def test_refused_stream_is_opened_again(browser: Browser, stack: Stack, key: str) -> None:
    with tab_of(browser, stack.url) as tab:
        tab.sign_in(key)
        tab.page.clock.install()
        tab.page.route("**/console/pulse", lambda route: route.fulfill(status=503))
        tab.open("/console/processes")
        said(tab.page, "every 10 s")
        tab.page.unroute("**/console/pulse")
        tab.page.clock.run_for(12_000)
        said(tab.page, "live")


def test_refused_stream_is_not_opened_each_second_while_the_reader_is_busy(
    browser: Browser, stack: Stack, key: str
) -> None:
    with tab_of(browser, stack.url) as tab:
        tab.sign_in(key)
        tab.page.clock.install()
        refused = []
        tab.page.route("**/console/pulse", lambda route: (refused.append(route), route.fulfill(status=503)))
        tab.open("/console/processes")
        said(tab.page, "every 10 s")
        tab.page.keyboard.press("p")
        said(tab.page, "paused")
        for _ in range(30):
            tab.page.clock.run_for(1000)
            tab.page.evaluate("() => fetch('/console/static/console.js')")  # a refusal arrives
        assert len(refused) <= 4
