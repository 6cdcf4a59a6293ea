"""Forms of endpoints in a real browser, by keyboard, with and without JavaScript."""

import json

from playwright.sync_api import Browser, expect

from app.dev.stack.runner import Stack
from tests.browser.tab import PHONE, Tab, tab_of

LINES = "Dear reader\nwith two lines"


def test_endpoint_is_made_by_keyboard_and_edited_without_javascript(
    browser: Browser, stack: Stack, key: str, tab: Tab
) -> None:
    """Also a text of two lines."""
    tab.open("/console/endpoints")
    tab.page.get_by_role("link", name="New endpoint").first.press("Enter")
    tab.page.get_by_label("Delivers to").select_option("NOTIFICATION")
    tab.page.get_by_role("button", name="Change").press("Enter")
    tab.page.get_by_label("Name", exact=True).fill("tell-all")
    tab.page.get_by_label("Name", exact=True).press("Enter")
    expect(tab.page.locator(".notice.bad")).to_contain_text("not valid")
    url = tab.page.get_by_label("url", exact=True)
    expect(url).to_have_attribute("aria-invalid", "true")
    expect(url).to_have_accessible_description("Required.")
    assert tab.violations() == []
    url.fill("ntfys://ntfy.example/all")
    tab.page.get_by_label("body (optional)").fill(LINES)
    tab.page.get_by_role("button", name="Create").press("Enter")
    expect(tab.page.get_by_role("status").first).to_contain_text("The endpoint is created.")

    with tab_of(browser, stack.url, java_script_enabled=False, viewport=PHONE) as plain:
        plain.sign_in(key)
        plain.open("/console/endpoints/tell-all/edit")
        expect(plain.page.get_by_label("body (optional)")).to_have_value(LINES)
        plain.page.get_by_role("button", name="As JSON").first.click()
        spec = json.loads(plain.page.get_by_label("As JSON", exact=True).input_value())
        assert spec == {"url": "ntfys://ntfy.example/all", "body": LINES}
        plain.page.get_by_role("button", name="As fields").click()
        plain.page.get_by_label("timeout_ms (optional)", exact=True).fill("9000")
        plain.page.get_by_role("button", name="See the changes").click()
        expect(plain.page.locator("#changes tbody tr")).to_have_count(1)
        plain.page.get_by_role("button", name="Save version 2").click()
        expect(plain.page.get_by_role("status").first).to_contain_text("Version 2 is in effect")
