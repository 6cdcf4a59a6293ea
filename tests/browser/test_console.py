"""The console in a real browser: under its policy, with and without JavaScript, readable by everybody."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Route, expect

from app.console.pages import all_pages
from app.dev.stack.runner import Stack
from app.features.rollups import rollup_slots
from app.kernel.access import api_keys, console_sessions
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from tests import rows
from tests.browser.looks import check_pages
from tests.browser.tab import PHONE, Tab, tab_of
from tests.endings import begin_rollups

# Types a text into the palette, and returns what Enter would do before an answer can come.
ENTER_WITH = """(text) => {
  const field = document.getElementById("palette-field");
  field.value = text;
  field.dispatchEvent(new Event("input", { bubbles: true }));
  return document.querySelector("#palette [role=status]").textContent;
}"""


@pytest.fixture(autouse=True, scope="module")
def worker(database: Database) -> str:
    worker_lease.register(database, worker_id="wrk_1", host="h", pid=1, queues=["http"], capacity=9, lease_ms=600_000)
    return "wrk_1"


@contextmanager
def signed_in(browser: Browser, stack: Stack, key: str, **options: object) -> Iterator[Tab]:
    with tab_of(browser, stack.url, **options) as tab:
        tab.sign_in(key)
        yield tab


@pytest.mark.sampled
def test_pages_break_no_rule_of_accessibility_and_fit(browser: Browser, stack: Stack, key: str) -> None:
    plain = {page.name: f"/console{page.path}" for page in all_pages() if "<" not in page.path}
    check_pages(browser, stack.url, key, {"sign-in": "/console/sign-in", "nowhere": "/console/nowhere"} | plain)


def test_console_works_without_javascript(browser: Browser, stack: Stack, key: str) -> None:
    with signed_in(browser, stack, key, java_script_enabled=False) as tab:
        tab.page.get_by_role("link", name="Processes").click()
        row = tab.page.locator("#wrk_1")
        row.get_by_text("Drain…").click()
        row.get_by_role("button", name="Drain").click()
        expect(tab.page.get_by_role("status").first).to_have_text("✓ Asked worker wrk_1 to drain.")
        tab.page.locator("summary", has_text="visitor").click()
        tab.page.get_by_role("button", name="Sign out").click()
        expect(tab.page.get_by_role("heading")).to_have_text("Sign in")


def refresh(tab: Tab) -> None:
    """Refresh all regions, as a change does."""
    with tab.page.expect_response("**?*region=*"):
        tab.page.evaluate("document.querySelectorAll('[data-region]').forEach((each) => htmx.trigger(each, 'refresh'))")


def test_refresh_keeps_focus_menus_and_what_was_typed(tab: Tab, database: Database) -> None:
    tab.open("/console/processes")
    tab.page.get_by_label("State").select_option("LOST")
    tab.page.get_by_label("State").focus()
    tab.page.locator("summary", has_text="visitor").click()
    tab.page.get_by_label("State").focus()
    worker_lease.register(database, worker_id="wrk_2", host="h", pid=2, queues=["http"], capacity=9, lease_ms=600_000)
    refresh(tab)
    expect(tab.page.locator("#wrk_2")).to_be_visible()
    expect(tab.page.get_by_label("State")).to_be_focused()
    expect(tab.page.get_by_label("State")).to_have_value("LOST")
    expect(tab.page.get_by_role("button", name="Sign out")).to_be_visible()
    refresh(tab)  # the second one shows that the region still has its attributes
    worker_lease.register(database, worker_id="wrk_3", host="h", pid=3, queues=["http"], capacity=9, lease_ms=600_000)
    refresh(tab)
    expect(tab.page.locator("#wrk_3")).to_be_visible()


def test_unchanged_region_is_not_sent_again(tab: Tab) -> None:
    tab.open("/console/processes")
    with tab.page.expect_response("**?*region=breakers") as answer:  # the other regions show the age of a beat
        tab.page.evaluate("htmx.trigger(document.querySelector('#region-breakers'), 'refresh')")
    assert answer.value.status == 304


SLIPPED = """<div id="slipped" hx-get="/console?slipped" hx-trigger="load" hx-nonce="guessed">x</div>
<div hx-get="/console?slipped" hx-trigger="load" onclick="fetch('/console?slipped')" style="color: red">x</div>"""
SCRIPTS = '<script>fetch("/console?slipped")</script><script src="/console/static/slipped.js"></script>'


@pytest.mark.parametrize("part", ["page", "fragment"])
def test_markup_that_slipped_in_can_do_nothing(tab: Tab, part: str) -> None:
    answered: list[str] = []
    tab.page.on("response", lambda response: answered.append(response.url))
    slipped = SLIPPED + SCRIPTS if part == "page" else SLIPPED  # htmx swaps no fragment with a script at all

    def slip(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("<h2>Workers</h2>", f"<h2>Workers</h2>{slipped}"))

    if part == "fragment":
        tab.open("/console/processes")
        tab.page.evaluate("document.querySelector('#region-workers').removeAttribute('data-etag')")
    tab.page.route("**/console/processes*", slip)
    if part == "fragment":
        refresh(tab)
    else:
        tab.open("/console/processes")
    expect(tab.page.locator("#slipped")).to_be_visible()
    assert tab.page.locator("#slipped").get_attribute("hx-get") is None
    tab.page.locator("#slipped + div").click()
    refresh(tab)
    assert [url for url in answered if "slipped" in url] == []
    assert any("hx-csp] blocked" in fault for fault in tab.faults)
    tab.page.unroute_all(behavior="ignoreErrors")
    tab.faults.clear()


def test_keys_open_pages_and_never_act_in_fields(tab: Tab) -> None:
    tab.page.keyboard.press("?")
    expect(tab.page.get_by_role("dialog", name="Keys")).to_be_visible()
    assert tab.violations() == []
    tab.page.keyboard.press("Escape")
    expect(tab.page.get_by_role("dialog", name="Keys")).to_be_hidden()
    tab.page.keyboard.press("/")
    expect(tab.page.get_by_role("searchbox")).to_be_focused()
    tab.page.get_by_role("searchbox").blur()
    tab.page.keyboard.press("g")
    tab.page.keyboard.press("w")
    tab.page.wait_for_url("**/console/processes")
    tab.page.keyboard.press("p")
    expect(tab.page.locator("#live")).to_have_text("paused")
    tab.page.get_by_label("State").focus()
    tab.page.keyboard.press("p")
    expect(tab.page.locator("#live")).to_have_text("paused")


def test_choice_of_colours_is_there_at_the_first_paint_of_the_next_page(tab: Tab) -> None:
    tab.page.keyboard.press("t")
    expect(tab.page.locator("html")).to_have_attribute("data-theme", "dark")
    assert 'data-theme="dark"' in tab.page.request.get(f"{tab.base}/console").text()
    tab.page.get_by_role("button", name="Light or dark").click()
    expect(tab.page.locator("html")).to_have_attribute("data-theme", "light")


def test_link_signs_in_and_leaves_no_trace_in_the_address(
    browser: Browser, stack: Stack, key: str, database: Database
) -> None:
    link = console_sessions.link_to(stack.url, console_sessions.new_link(database, api_keys.id_in(key)))
    with tab_of(browser, stack.url) as tab:
        tab.page.goto(link)
        expect(tab.page.get_by_role("heading", name="Overview")).to_be_visible()
        assert "#" not in tab.page.url


def test_ended_session_leads_to_the_sign_in_and_back(browser: Browser, stack: Stack, database: Database) -> None:
    key = api_keys.create(database, "short", [Scope.READ], None)
    with signed_in(browser, stack, key) as tab:
        tab.open("/console/processes?state=ALIVE")
        tab.page.context.clear_cookies()
        tab.page.evaluate("htmx.trigger(document.querySelector('[data-region]'), 'refresh')")
        # The answers of several regions lead there, so one navigation may end another.
        expect(tab.page.get_by_label("API key")).to_be_visible()
        expect(tab.page).to_have_url(f"{stack.url}/console/sign-in?next=/console/processes%3Fstate%3DALIVE")


def test_printed_page_has_no_controls(tab: Tab) -> None:
    tab.open("/console/processes")
    tab.page.emulate_media(media="print")
    expect(tab.page.get_by_role("navigation")).to_be_hidden()
    expect(tab.page.get_by_role("button", name="Filter")).to_be_hidden()
    expect(tab.page.get_by_text("wrk_1", exact=True)).to_be_visible()


def test_change_is_shown_about_a_second_later(tab: Tab, database: Database) -> None:
    tab.open("/console/processes")
    expect(tab.page.locator("#live")).to_have_text("live")
    worker_lease.register(database, worker_id="wrk_4", host="h", pid=4, queues=["http"], capacity=9, lease_ms=600_000)
    expect(tab.page.locator("#wrk_4")).to_be_visible()


def test_page_with_an_open_menu_waits_with_changes(tab: Tab, database: Database) -> None:
    tab.open("/console/processes")
    expect(tab.page.locator("#live")).to_have_text("live")
    tab.page.locator("summary", has_text="visitor").click()
    with tab.page.expect_event("console", lambda message: message.text == "told"):
        tab.page.evaluate("new EventSource('/console/pulse').addEventListener('changed', () => console.log('told'))")
        worker_lease.register(
            database, worker_id="wrk_5", host="h", pid=5, queues=["http"], capacity=9, lease_ms=600_000
        )
    expect(tab.page.locator("#wrk_5")).to_have_count(0)
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator("#wrk_5")).to_be_visible()
    tab.faults.clear()  # the line above


def test_time_zone_is_chosen_without_javascript_and_fits_a_phone(browser: Browser, stack: Stack, key: str) -> None:
    with signed_in(browser, stack, key, java_script_enabled=False, viewport=PHONE) as tab:
        tab.page.get_by_role("link", name="Time zone UTC").click()
        tab.page.get_by_label("Time zone").fill("America/Argentina/ComodRivadavia")
        tab.page.get_by_role("button", name="Show times in this zone").click()
        tab.page.wait_for_url(f"{stack.url}/console")
        expect(tab.page.get_by_text("Times are in America/Argentina/ComodRivadavia")).to_be_visible()
        assert not tab.scrolls_sideways()


def test_browser_offers_its_own_time_zone_and_charts_follow(
    browser: Browser, stack: Stack, key: str, database: Database
) -> None:
    begin_rollups(database, 10)
    list(rollup_slots.advance(database, 1))
    with signed_in(browser, stack, key, timezone_id="Asia/Tokyo") as tab:
        tab.open("/console/time-zone?back=/console/history")
        tab.page.get_by_role("button", name="Asia/Tokyo, as this browser").click()
        tab.page.wait_for_url(f"{stack.url}/console/history")
        expect(tab.page.get_by_text("Times are in Asia/Tokyo")).to_be_visible()
        tab.page.locator(".u-over").first.hover()
        expect(tab.page.locator(".chart-tip").first).to_contain_text("Asia/Tokyo")


def test_view_of_a_list_is_saved_and_removed(tab: Tab) -> None:
    tab.open("/console/executions?endpoint=charge&status=FAILED&after=&columns=traffic")
    tab.page.locator("summary", has_text="Views").click()
    assert tab.violations() == []
    tab.page.get_by_label("Name of the present filter").fill("failed charges")
    tab.page.get_by_role("button", name="Save").click()
    tab.open("/console/dead-letters")
    tab.page.locator("summary", has_text="Views").click()
    expect(tab.page.get_by_role("link", name="failed charges")).to_have_count(0)
    tab.open("/console/executions")
    tab.page.locator("summary", has_text="Views").click()
    tab.page.get_by_role("link", name="failed charges").click()
    tab.page.wait_for_url("**/console/executions?endpoint=charge&status=FAILED&columns=traffic")
    tab.page.locator("summary", has_text="Views").click()
    tab.page.get_by_role("button", name="Remove the view failed charges").click()
    tab.page.reload()
    tab.page.locator("summary", has_text="Views").click()
    expect(tab.page.get_by_role("link", name="failed charges")).to_have_count(0)


def test_palette_goes_to_a_page_a_button_or_a_name_or_searches(tab: Tab, database: Database) -> None:
    tab.open("/console")
    tab.page.keyboard.press("Control+k")
    expect(tab.page.get_by_label("Page, button of this page, name")).to_be_focused()
    assert tab.violations() == []
    tab.page.keyboard.type("dead let")
    expect(tab.page.get_by_text("Enter goes to Dead letters.")).to_be_visible()
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/console/dead-letters")
    rows.add_endpoint(database, "charge-by-name")
    tab.page.keyboard.press("Control+k")
    tab.page.keyboard.type("by-na")
    expect(tab.page.locator("#palette-names").get_by_role("link", name="charge-by-name")).to_be_visible()
    expect(tab.page.get_by_text("Enter goes to charge-by-name.")).to_be_visible()
    assert tab.violations() == []
    assert tab.page.evaluate(ENTER_WITH, "by-nam") == "Enter searches for this text.", "names of an earlier text"
    expect(tab.page.get_by_text("Enter goes to charge-by-name.")).to_be_visible()
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/console/endpoints/charge-by-name")
    tab.page.keyboard.press("Control+k")
    tab.page.keyboard.type("pause")
    expect(tab.page.get_by_text("Enter goes to Pause….")).to_be_visible()
    tab.page.keyboard.press("Enter")
    expect(tab.page.locator(".actions summary", has_text="Pause…")).to_be_focused()
    expect(tab.page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    tab.page.keyboard.press("Control+k")
    tab.page.keyboard.type("nobody has this name")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url("**/console/search?q=nobody+has+this+name")
    expect(tab.page.locator(".field.wide")).to_have_css("overflow-x", "visible")  # else it cuts the ring of the focus
    tab.page.keyboard.press("Control+k")
    tab.page.keyboard.press("ArrowDown")
    expect(tab.page.locator("#palette").get_by_role("link", name="Overview")).to_be_focused()
    tab.page.keyboard.press("Escape")
    expect(tab.page.locator("#palette")).to_be_hidden()


@pytest.mark.parametrize(("status", "words"), [(429, "too many requests"), (404, "not answering")])
def test_refused_refresh_keeps_the_region_and_marks_it(tab: Tab, status: int, words: str) -> None:
    tab.open("/console/processes")
    page = "<!doctype html><html><body><main>a whole page</main></body></html>"
    tab.page.route("**?*region=*", lambda route: route.fulfill(status=status, content_type="text/html", body=page))
    refresh(tab)
    expect(tab.page.locator("#region-workers.stale[data-as-of]")).to_be_visible()
    expect(tab.page.locator("#wrk_1")).to_be_visible()
    expect(tab.page.get_by_text("a whole page")).to_have_count(0)
    expect(tab.page.locator("#live")).to_have_text(words)
    tab.page.unroute_all(behavior="ignoreErrors")
    refresh(tab)
    expect(tab.page.locator("#region-workers:not(.stale)")).to_be_visible()
