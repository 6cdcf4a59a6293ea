"""The form of a new job in a real browser."""

from playwright.sync_api import expect

from app.kernel.db import Database
from tests import rows
from tests.browser.tab import Tab


def test_faults_and_request_follow_what_is_typed(tab: Tab, database: Database) -> None:
    rows.add_endpoint(database, "typed")
    tab.open("/console/jobs/new?endpoint=typed")
    checked = tab.page.locator("#checked")
    field = tab.page.get_by_label("Input, as JSON")
    field.press_sequentially('{"a": 12')
    expect(checked.locator("li")).to_contain_text("input")
    field.press_sequentially("}")
    expect(checked).to_contain_text('"input":{"a":12}')
    expect(checked.locator("li")).to_have_count(0)
    expect(field).to_be_focused()
    expect(field).to_have_value('{"a": 12}')
    assert tab.violations() == []
