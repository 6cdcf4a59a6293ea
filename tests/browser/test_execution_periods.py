"""Bars above the list of executions in a real browser."""

from datetime import timedelta

import pytest
from playwright.sync_api import Browser, expect

from app.dev.stack.runner import Stack
from app.features.rollups.rollup_slots import advance
from app.kernel.db import Database
from tests import rows
from tests.browser.tab import PHONE, tab_of
from tests.endings import Ending, begin_rollups, put_endings


@pytest.fixture
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
            expect(tab.page.get_by_title("Remove this filter")).to_have_count(3)
            assert "created_after" in tab.page.url
            assert "since" not in tab.page.url
            tab.open("/console/executions?endpoint=nobody")
            expect(tab.page.locator("#region-periods")).to_be_hidden()
