"""All pages: by scope, with their headers, in parts, and without a database."""

import re

import pytest
from flask import Flask
from sqlalchemy import text

from app.console.access import guard
from app.console.http.actions import ACTIONS, address
from app.console.http.console_page import ConsolePage
from app.console.pages import all_pages
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.config import Settings
from app.kernel.db import Database
from tests.cases import each_case
from tests.integration.client import running
from tests.integration.console.visitor import OWN, Visitor

PLAIN = [page for page in all_pages() if "<" not in page.path]
NAMES = [page.name for page in PLAIN]


@pytest.fixture
def reader(app: Flask, database: Database) -> Visitor:
    return Visitor(app, Scope.READ)


@each_case("page", PLAIN, ids=NAMES)
def test_page_is_shown_to_its_scope_only(app: Flask, database: Database, page: ConsolePage) -> None:
    path = f"/console{page.path}"
    visitor, sender = Visitor(app, Scope.ADMIN), Visitor(app, Scope.JOBS_SEND)
    assert "This part cannot be shown" not in visitor.get(path)
    assert "lacks the scope" in sender.get(path, 403)
    assert Visitor(app).browser.get(path).status_code == 303


@each_case("page", PLAIN, ids=NAMES)
def test_regions_of_a_page_are_read_by_themselves(app: Flask, database: Database, page: ConsolePage) -> None:
    visitor = Visitor(app, Scope.ADMIN)
    path = f"/console{page.path}"
    for region in re.findall(r'data-etag="([^"]*)"[^>]*hx-get="([^"]*)"', visitor.get(path)):
        tag, part = region[0].replace("&#34;", '"'), region[1].replace("&amp;", "&")
        answer = visitor.browser.get(part, headers={"If-None-Match": tag})
        assert answer.status_code == 304, f"{part} differs although nothing has changed"
        assert "nonce-" in answer.headers["Content-Security-Policy"]
        fresh = visitor.browser.get(part)
        assert (fresh.status_code, fresh.headers["ETag"]) == (200, tag)


@each_case("operation", ACTIONS)
def test_action_has_the_scope_of_its_operation(app: Flask, database: Database, operation: str) -> None:
    visitor = Visitor(app)
    visitor.sign_in(api_keys.create(database, "without scopes", [], None))
    path = re.sub(r"<\w+>", "x", address(operation))
    answer = visitor.send(path, {"csrf": csrf_of(visitor), "once": "1"})
    assert answer.status_code == 403
    assert "lacks the scope" in answer.get_data(as_text=True)


def csrf_of(visitor: Visitor) -> str:
    found = re.search(r'name="csrf" value="(\w+)"', visitor.get("/console", 403))
    assert found is not None
    return found[1]


def test_unknown_page_is_not_found(reader: Visitor) -> None:
    assert "There is no page at this address" in reader.get("/console/nowhere", 404)
    assert reader.browser.get("/console/?").status_code in {303, 308}
    assert reader.browser.get("/console/processes?region=none").status_code == 404


def test_each_answer_has_the_policy_and_a_new_nonce(reader: Visitor) -> None:
    answers = [reader.browser.get(path) for path in ("/console", "/console", "/console/nowhere", "/console/sign-in")]
    policies = [answer.headers["Content-Security-Policy"] for answer in answers]
    nonces = {re.search(r"script-src 'nonce-([\w-]+)';", policy)[1] for policy in policies}  # type: ignore[index]
    assert len(nonces) == len(answers)
    for answer, policy in zip(answers, policies, strict=True):
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'; trusted-types htmx" in policy
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        page = answer.get_data(as_text=True)
        nonce = policy.split("'nonce-")[1].split("'")[0]
        assert set(re.findall(r'nonce="([^"]*)"', page)) == {nonce}


def test_static_files_are_kept_for_a_year_under_their_hash(app: Flask, reader: Visitor) -> None:
    browser = app.test_client()
    page = reader.get("/console")
    files = re.findall(r'(?:src|href)="(/console/static/[^"]+)"', page)
    assert len(files) >= 4
    for file in files:
        plain, packed = browser.get(file), browser.get(file, headers={"Accept-Encoding": "gzip"})
        assert plain.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert (plain.status_code, packed.headers["Content-Encoding"]) == (200, "gzip")
        assert len(packed.data) < len(plain.data) or len(plain.data) < 500
    assert browser.get("/console/static/console.css").status_code == 404


REFUSED = {
    "another site": {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost"},
    "another origin": {"Origin": "http://evil.example"},
    "no origin": {"X-Nothing": "1"},
    "opaque origin": {"Origin": "null"},
}


@each_case("case", REFUSED)
@each_case("path", ["/console/sign-in", "/console/sign-out", "/console/do/post/workers/x/drain"])
def test_form_of_another_site_is_refused(app: Flask, database: Database, path: str, case: str) -> None:
    visitor = Visitor(app, Scope.ADMIN)
    fields = visitor.form("/console", "/console/sign-out") | {"once": "1", "key": visitor.key}
    assert visitor.send(path, fields, **REFUSED[case]).status_code == 403
    visitor.get("/console")


def test_form_of_the_own_origin_is_taken_where_the_browser_sends_no_site(app: Flask, database: Database) -> None:
    visitor = Visitor(app, Scope.ADMIN)
    fields = visitor.form("/console", "/console/sign-out")
    assert visitor.send("/console/sign-out", fields, Origin="http://localhost").status_code == 303


@each_case("token", ["", "0" * 64, "\u00e9"])
def test_form_without_the_token_of_the_session_is_refused(app: Flask, database: Database, token: str) -> None:
    visitor = Visitor(app, Scope.ADMIN)
    assert visitor.send("/console/sign-out", {"csrf": token}).status_code == 403
    visitor.get("/console")


def test_reading_changes_nothing(app: Flask) -> None:
    """GET routes of the console are pages; each change is a POST."""
    rules = [rule for rule in app.url_map.iter_rules() if rule.endpoint.startswith("console.")]
    both = [rule.rule for rule in rules if {"GET", "POST"} <= (rule.methods or set())]
    assert both == []
    assert all("POST" in (rule.methods or set()) for rule in rules if "/do/" in rule.rule)


def test_region_that_fails_leaves_the_rest_of_the_page(app: Flask, database: Database, reader: Visitor) -> None:
    database.fetch(text("ALTER TABLE workers RENAME TO away"))
    page = reader.get("/console/processes")
    assert "This part cannot be shown" in page
    assert "<h1>Processes</h1>" in page
    assert reader.browser.get("/console/processes?region=workers").status_code == 500


def test_without_a_database_the_console_says_so_and_asks_again(app: Flask) -> None:
    with running(Settings(database_url="postgresql://nobody@127.0.0.1:1/none")) as cut_off:
        visitor = Visitor(cut_off)
        visitor.browser.set_cookie("__Host-te_console", "x")
        page = visitor.get("/console", 503)
    assert "data-retry" in page
    assert "Sign out" not in page


def test_pages_share_four_connections(app: Flask, reader: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "PATIENCE_SECONDS", 0.01)
    held = [guard.connections.acquire() for _ in range(guard.MAX_CONNECTIONS)]
    try:
        assert "The console is busy" in reader.get("/console", 503)
    finally:
        for _ in held:
            guard.connections.release()
    for _ in range(2 * guard.MAX_CONNECTIONS):
        reader.get("/console")


def test_ended_session_leads_a_fragment_to_the_sign_in(app: Flask, database: Database) -> None:
    path = "http://localhost/console/processes?state=LOST"
    answer = Visitor(app).browser.get(
        "/console/processes?region=workers", headers={"HX-Request": "true", "HX-Current-URL": path}
    )
    assert answer.status_code == 204
    assert answer.headers["HX-Redirect"] == "/console/sign-in?next=/console/processes%3Fstate%3DLOST"


def test_limit_of_a_key_counts_its_actions_and_pages(database_url: str) -> None:
    with running(Settings(database_url=database_url, rate_limit="4/hour")) as app:
        visitor = Visitor(app, Scope.ADMIN)
        fields = visitor.form("/console", "/console/sign-out") | {"once": "1"}
        answers = [visitor.send("/console/do/post/workers/x/drain", fields).status_code for _ in range(2)]
        assert answers == [404, 404]
        visitor.get("/console")
        visitor.get("/console", 429)
        assert visitor.send("/console/do/post/workers/x/drain", fields).status_code == 429


def test_regions_are_counted_apart_from_pages(database_url: str) -> None:
    with running(Settings(database_url=database_url, rate_limit="2/hour")) as app:
        visitor = Visitor(app, Scope.ADMIN)
        region = "/console/processes?region=workers"
        assert [visitor.browser.get(region).status_code for _ in range(3)] == [200, 200, 429]
        visitor.get("/console/processes")


def test_form_that_is_typed_is_counted_apart_from_pages(database_url: str) -> None:
    with running(Settings(database_url=database_url, rate_limit="3/hour")) as app:
        visitor = Visitor(app, Scope.READ, Scope.JOBS_WRITE)
        fields = visitor.form("/console", "/console/sign-out") | {"endpoint": "target"}
        assert [visitor.send("/console/jobs/new", fields).status_code for _ in range(4)] == [200, 200, 200, 429]
        for _ in range(2):
            visitor.get("/console/jobs/new")


def test_form_that_is_typed_has_the_scope_of_its_page(app: Flask, reader: Visitor) -> None:
    fields = reader.form("/console", "/console/sign-out") | {"endpoint": "target"}
    assert reader.send("/console/jobs/new", fields).status_code == 403
    assert reader.send("/console/jobs/new", fields | {"csrf": "x"}).status_code == 403


STREAM = {"Accept": "text/event-stream"}


@each_case(
    ("method", "path", "headers"),
    [
        ("GET", "/console/processes?region=none", {}),
        ("GET", "/console/processes?region=entries", {}),
        ("HEAD", "/console/processes?region=workers", {}),
        ("POST", "/console/do/post/workers/x/drain?region=workers", {}),
        ("GET", "/console/processes", STREAM),
    ],
)
def test_request_cannot_choose_the_count_of_regions(
    database_url: str, method: str, path: str, headers: dict[str, str]
) -> None:
    with running(Settings(database_url=database_url, rate_limit="2/hour")) as app:
        visitor = Visitor(app, Scope.ADMIN)
        fields = visitor.form("/console", "/console/sign-out") | {"once": "1"} if method == "POST" else None
        for _ in range(2):
            visitor.browser.open(path, method=method, headers=OWN | headers, data=fields)
        visitor.get("/console/processes", 429)


def test_pulse_is_counted_apart_from_pages(database_url: str) -> None:
    with running(Settings(database_url=database_url, rate_limit="1/hour")) as app:
        visitor = Visitor(app, Scope.READ)
        for _ in range(2):
            assert visitor.browser.get("/console/pulse", headers=STREAM).status_code == 200
        visitor.get("/console/processes")


def test_refusal_names_the_rest_of_the_window(database_url: str) -> None:
    with running(Settings(database_url=database_url, rate_limit="1/hour")) as app:
        visitor = Visitor(app, Scope.READ)
        visitor.get("/console")
        refused = visitor.browser.get("/console")
        seconds = int(refused.headers["Retry-After"])
        assert 3000 < seconds <= 3600
        assert f'data-retry="{seconds}"' in refused.get_data(as_text=True)


def test_page_goes_back_to_where_it_was_asked_for(app: Flask, database: Database) -> None:
    answer = Visitor(app, Scope.ADMIN).browser.get("/console/sign-in?signed-in&next=/console/processes")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/console/processes")
