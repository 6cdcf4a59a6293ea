"""Rows of lists by keys in a real browser: moves, ticks, ranges, all of a page, and all that match the filter."""

import pytest
from playwright.sync_api import Browser, Locator, expect
from sqlalchemy import text

from app.dev.stack.runner import Stack
from app.kernel.db import Database
from tests import rows
from tests.browser.tab import PHONE, Tab, tab_of
from tests.console_story import Story

WAITING = "/console/executions?endpoint=send-mail&status=QUEUED"


@pytest.fixture(scope="module")
def story(database: Database) -> Story:
    return Story(database)


def press(tab: Tab, *keys: str) -> None:
    for key in keys:
        tab.page.keyboard.press(key)


def box(tab: Tab, row: Locator) -> Locator:
    return row.get_by_role("checkbox")


def refresh(tab: Tab) -> None:
    with tab.page.expect_response("**?*region=list*"):
        tab.page.evaluate("htmx.trigger(document.querySelector('#region-list'), 'refresh')")


@pytest.mark.usefixtures("story")
def test_keys_move_tick_a_range_and_lead_to_the_preview_of_the_ticked_rows(tab: Tab) -> None:
    tab.open(WAITING)
    found = tab.page.locator("#region-list tbody tr")
    press(tab, "j", "j")
    expect(found.nth(1).get_by_role("link").first).to_be_focused()
    press(tab, "x")
    expect(box(tab, found.nth(1))).to_be_checked()
    expect(tab.page.locator("#say")).to_have_text("1 row ticked.")
    press(tab, "j", "j", "X")
    expect(tab.page.locator("#say")).to_have_text("3 rows ticked.")
    expect(tab.page.locator("[data-count]")).to_have_text("3 ticked rows:")
    assert tab.violations() == []
    press(tab, "k", "x", "c")
    expect(tab.page.get_by_role("button", name="Cancel 2")).to_be_visible()


def test_all_of_a_page_lead_to_all_that_match_the_filter(tab: Tab, story: Story) -> None:
    tab.open(WAITING)
    everything = tab.page.get_by_role("checkbox", name="Choose all rows of this page")
    matching = tab.page.get_by_role("button", name="Choose all that match the filter")
    expect(matching).to_be_hidden()
    everything.check()
    expect(tab.page.locator("#say")).to_contain_text("All 5 rows of this page are ticked.")
    matching.click()
    expect(tab.page.locator("#say")).to_have_text("All that match the filter are chosen.")
    expect(tab.page.locator("[data-count]")).to_have_text("All that match the filter:")
    rows.add_executions(story.database, 1, endpoint="send-mail", max_attempts=3, input_={"order": "o-12"})
    press(tab, "c")
    expect(tab.page.get_by_role("button", name="Cancel 6")).to_be_visible()
    assert "execution_id" not in tab.page.url
    tab.page.go_back()
    everything.check()
    matching.click()
    tab.page.locator("#region-list tbody").get_by_role("checkbox").first.uncheck()
    expect(tab.page.locator("[data-count]")).to_contain_text("ticked row")


def test_letters_are_ticked_by_keys_and_all_of_the_filter_are_archived(tab: Tab, story: Story) -> None:
    tab.open("/console/dead-letters?endpoint=send-mail")
    tab.page.locator(f"[id='{story.letters[-1]}'] a").first.focus()
    press(tab, "x")
    expect(tab.page.locator("[data-count]")).to_have_text("1 ticked row:")
    tab.page.get_by_role("checkbox", name="all of this page", exact=True).check()
    tab.page.get_by_role("button", name="Choose all that match the filter").click()
    tab.page.locator("#chosen").get_by_role("button", name="Archive…").click()
    tab.page.wait_for_url("**/console/dead-letters/archive?endpoint=send-mail")


def test_refresh_that_takes_the_focused_row_away_leaves_the_focus_at_its_place(tab: Tab, story: Story) -> None:
    tab.open("/console/executions?endpoint=send-mail&status=PENDING")
    found = tab.page.locator("#region-list tbody tr")
    expect(found).to_have_count(2)
    press(tab, "j")
    refresh(tab)
    expect(found.first.get_by_role("link").first).to_be_focused()
    gone, other = (found.nth(number).get_attribute("id") for number in range(2))
    story.database.fetch(text("UPDATE executions SET endpoint = 'charge-card' WHERE execution_id = :id"), {"id": gone})
    refresh(tab)
    expect(tab.page.locator(f"[id='{other}'] a").first).to_be_focused()
    expect(tab.page.locator("#say")).to_have_text("The row has left the list.")


@pytest.mark.usefixtures("story")
def test_neighbours_of_the_list_open_by_keys_and_letters_are_switched_off(tab: Tab) -> None:
    tab.open("/console/executions?endpoint=charge-card")
    found = [each.get_attribute("id") for each in tab.page.locator("#region-list tbody tr").all()]
    press(tab, "j", "Enter")
    tab.page.wait_for_url(f"**/executions/{found[0]}")
    press(tab, "[")
    expect(tab.page.locator("#say")).to_have_text("This is the first row of the list.")
    press(tab, "]")
    tab.page.wait_for_url(f"**/executions/{found[1]}")
    press(tab, "?")
    assert tab.violations() == []
    tab.page.get_by_role("checkbox", name="Single letters act").uncheck()
    tab.page.get_by_role("button", name="Close").click()
    tab.open(WAITING)
    press(tab, "j", "p")
    expect(tab.page.locator("#live")).not_to_have_text("paused")
    expect(tab.page.locator("tbody :focus")).to_have_count(0)
    tab.page.locator("summary", has_text="visitor").click()
    tab.page.get_by_role("button", name="Keys (?)").click()
    tab.page.get_by_role("checkbox", name="Single letters act").check()


@pytest.mark.usefixtures("story")
def test_list_without_javascript_has_no_box_for_all_rows(browser: Browser, stack: Stack, key: str) -> None:
    with tab_of(browser, stack.url, java_script_enabled=False, viewport=PHONE) as plain:
        plain.sign_in(key)
        plain.open(WAITING)
        expect(plain.page.locator("[data-all]:visible")).to_have_count(0)
        assert not plain.scrolls_sideways()


@pytest.mark.usefixtures("story")
def test_browser_that_refuses_storage_has_its_keys(tab: Tab) -> None:
    tab.page.add_init_script(
        "for (const name of ['localStorage', 'sessionStorage'])"
        " Object.defineProperty(window, name, { get() { throw new DOMException('', 'SecurityError') } })"
    )
    tab.open(WAITING)
    press(tab, "]")
    press(tab, "j")
    expect(tab.page.locator("#region-list tbody tr").first.get_by_role("link").first).to_be_focused()
    press(tab, "?")
    expect(tab.page.get_by_role("dialog", name="Keys")).to_be_visible()
    assert tab.faults == []


def test_letters_focus_the_buttons_of_one_execution_and_press_nothing(tab: Tab, story: Story) -> None:
    tab.open(f"/console/executions/{story.retrying}")
    press(tab, "c")
    button = tab.page.locator('main form[action$="/cancel"] button')
    expect(button).to_be_focused()
    expect(button).to_be_visible()
    tab.open(f"/console/executions/{story.failed}")
    press(tab, "r")
    expect(tab.page.locator('main form[action$="/retry"] button')).to_be_focused()
    assert tab.page.url.endswith(str(story.failed))
