"""A page that is open while the database is away: it keeps its content, says so, and goes on afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from app.dev.servers import Postgres
from app.dev.stack.runner import Stack
from tests.browser.tab import tab_of
from tests.waiting import eventually

pytestmark = [pytest.mark.own_faults]


@pytest.fixture
def own_stack(tmp_path: Path) -> Iterator[Stack]:
    """A web process with a PostgreSQL of its own, which the test stops."""
    with Stack(commands={}, env={"TE_CONSOLE_COOKIES": "insecure", "TE_WEB_WORKERS": "1"}, logs=tmp_path) as stack:
        stack.web()
        yield stack


def server(stack: Stack) -> Postgres:
    assert stack.postgres is not None
    return stack.postgres


def test_open_page_outlives_the_database(browser: Browser, own_stack: Stack) -> None:
    with tab_of(browser, own_stack.url) as tab:
        tab.sign_in(own_stack.api.key)
        tab.open("/console/processes")
        expect(tab.page.locator("#live")).to_have_text("live")
        server(own_stack).kill()
        tab.page.evaluate("htmx.trigger(document.querySelector('#region-workers'), 'refresh')")
        expect(tab.page.locator("#live")).to_have_text("not answering")
        expect(tab.page.locator("#region-workers")).to_have_class("region stale")
        expect(tab.page.get_by_text("No worker has reported")).to_be_visible()

        def is_refused() -> bool:
            tab.page.reload()
            return tab.page.get_by_role("heading", name="Not available now").is_visible()

        tab.page.reload()
        expect(tab.page.get_by_text("This part cannot be shown. The database cannot be reached").first).to_be_visible()
        eventually(is_refused, what="the page without a session in memory")
        expect(tab.page.get_by_text("demo")).to_have_count(0)
        server(own_stack).restart()
        expect(tab.page.get_by_role("heading", name="Processes", exact=True)).to_be_visible(timeout=60_000)
