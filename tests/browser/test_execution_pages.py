"""The pages of executions, dead letters and bulk operations in a real browser."""

import pytest
from playwright.sync_api import Browser, expect

from app.dev.stack.runner import Stack
from app.kernel.db import Database
from tests.browser.looks import check_pages
from tests.browser.tab import PHONE, Tab, tab_of
from tests.console_story import Story


@pytest.fixture(scope="module")
def story(database: Database) -> Story:
    return Story(database)


def paths(story: Story) -> dict[str, str]:
    return {
        "executions": "/console/executions",
        "punctuality": "/console/executions?columns=punctuality&since=2h",
        "all-columns": "/console/executions?columns=all&since=2h",
        "failed": f"/console/executions/{story.failed}",
        "endpoint-editor": "/console/endpoints/charge-card/edit",
        "endpoint-new": "/console/new-endpoint?type=NOTIFICATION",
        "retrying": f"/console/executions/{story.retrying}",
        "waiting": f"/console/executions/{story.waiting[2]}",
        "good": f"/console/executions/{story.good}",
        "running": f"/console/executions/{story.running}",
        "bulk": "/console/executions/bulk?action=retry&endpoint=charge-card",
        "letters": "/console/dead-letters",
        "letter": f"/console/dead-letters/{story.letter}",
        "archive": f"/console/dead-letters/archive?letter_id={story.letter}",
        "redrive": "/console/dead-letters/redrive?endpoint=charge-card",
        "uncertain": "/console/uncertain",
        "walks": "/console/walks",
    }


@pytest.mark.sampled
def test_pages_of_a_story_break_no_rule_of_accessibility_and_fit(
    browser: Browser, stack: Stack, key: str, story: Story
) -> None:
    check_pages(browser, stack.url, key, paths(story))


@pytest.mark.sampled
def test_pages_about_a_story_break_no_rule_of_accessibility_and_fit(
    browser: Browser, stack: Stack, key: str, story: Story
) -> None:
    about = {
        "overview": "/console",
        "endpoints": "/console/endpoints",
        "endpoint": "/console/endpoints/charge-card",
        "job": f"/console/jobs/{story.job}",
        "processes": "/console/processes",
        "lettered": f"/console/executions/{story.lettered}",
    }
    check_pages(browser, stack.url, key, about)


def test_group_of_letters_is_redriven_by_keyboard_only(tab: Tab, story: Story) -> None:
    tab.open("/console/dead-letters")
    tab.page.locator("a.button", has_text="Redrive 7…").focus()
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_role("heading", name="Redrive dead letters")).to_be_visible()
    tab.page.get_by_role("button", name="Redrive 7").focus()
    tab.page.keyboard.press("Enter")
    expect(tab.page.get_by_role("status").first).to_contain_text("has begun")
    expect(tab.page.locator("tr", has_text="redriven")).to_contain_text("trial: 0 of 4 sent, 4 must succeed")


def test_filter_is_in_the_address_and_back_undoes_it(tab: Tab, story: Story) -> None:
    tab.open("/console/executions")
    tab.page.get_by_label("Endpoint").fill("send-mail")
    tab.page.get_by_role("button", name="Filter").click()
    expect(tab.page.locator("tbody tr").first).to_contain_text("send-mail")
    assert "endpoint=send-mail" in tab.page.url
    expect(tab.page.locator("tbody")).not_to_contain_text("charge-card")
    tab.page.go_back()
    expect(tab.page.locator("tbody")).to_contain_text("charge-card")


def test_ids_and_endpoints_of_a_list_stay_on_one_line(tab: Tab, story: Story) -> None:
    tab.page.set_viewport_size({"width": 900, "height": 800})
    tab.open("/console/executions")
    heights = tab.page.locator("tbody a.short").evaluate_all("all => all.map(each => each.offsetHeight)")
    assert len(heights) > 10
    assert max(heights) < 30


def test_id_of_an_execution_is_copied(tab: Tab, story: Story) -> None:
    tab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab.open(f"/console/executions/{story.failed}")
    tab.page.get_by_role("button", name=f"copy {story.failed}").first.click()
    assert tab.page.evaluate("navigator.clipboard.readText()") == story.failed


def test_ticked_rows_stay_ticked_while_the_list_changes_and_are_cancelled_without_javascript(
    browser: Browser, stack: Stack, key: str, tab: Tab, story: Story, database: Database
) -> None:
    tab.open("/console/executions?endpoint=send-mail&status=QUEUED")
    box = tab.page.get_by_role("checkbox", name=f"Choose execution {story.waiting[0]}")
    box.focus()
    tab.page.keyboard.press("Space")
    with tab.page.expect_response("**?*region=list*"):
        tab.page.evaluate("htmx.trigger(document.querySelector('#region-list'), 'refresh')")
    expect(box).to_be_checked()
    expect(box).to_be_focused()
    with tab_of(browser, stack.url, java_script_enabled=False, viewport=PHONE) as plain:
        plain.sign_in(key)
        plain.open("/console/executions?endpoint=send-mail&status=QUEUED")
        for each in story.waiting[:2]:
            plain.page.get_by_role("checkbox", name=f"Choose execution {each}").check()
        plain.page.get_by_role("button", name="Cancel…").click()
        plain.page.get_by_role("button", name="Cancel 2").click()
        expect(plain.page.get_by_role("status").first).to_contain_text("has begun")
        expect(plain.page.locator("tr", has_text="cancelled")).to_contain_text("2 chosen")
