"""Sign-in to the console: by a key or a one-time link, for a session that ends."""

from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import event, text

from app.kernel.access import api_keys, console_sessions
from app.kernel.access.api_keys import Scope
from app.kernel.config import Settings
from app.kernel.db import Database
from tests.cases import each_case
from tests.integration.client import Api, running, services
from tests.integration.console.visitor import OWN, Markup, Visitor
from tests.integration.statements import Statements

COOKIE = "__Host-te_console"


@pytest.fixture
def visitor(app: Flask, database: Database) -> Visitor:
    return Visitor(app, Scope.READ)


def forget_caches(app: Flask) -> None:
    services(app).sessions.cache_seconds = services(app).keys.cache_seconds = 0.0


def is_signed_in(visitor: Visitor) -> bool:
    status: int = visitor.browser.get("/console").status_code
    assert status in {200, 303}
    return status == 200


def test_page_without_a_session_leads_to_the_sign_in_and_back(app: Flask, database: Database) -> None:
    visitor = Visitor(app)
    answer = visitor.browser.get("/console/processes?state=LOST")
    assert (answer.status_code, answer.headers["Location"]) == (
        303,
        "/console/sign-in?next=/console/processes%3Fstate%3DLOST",
    )
    assert 'value="/console/processes?state=LOST"' in visitor.get(answer.headers["Location"])
    key = api_keys.create(database, "late", [Scope.READ], None)
    begun = visitor.sign_in(key, next="/console/processes?state=LOST")
    there = visitor.browser.get(begun.headers["Location"])
    assert (there.status_code, there.headers["Location"]) == (303, "/console/processes?state=LOST")


def test_session_stores_neither_the_key_nor_the_secret(visitor: Visitor, database: Database) -> None:
    (row,) = database.fetch(text("SELECT * FROM console_sessions"))
    cookie = visitor.browser.get_cookie(COOKIE)
    assert cookie is not None
    assert visitor.key not in str(row)
    assert cookie.value not in str(row)


def test_cookie_is_for_this_host_over_tls_and_not_for_scripts(app: Flask, database: Database) -> None:
    answer = Visitor(app).sign_in(api_keys.create(database, "k", [Scope.READ], None))
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=Lax", "Max-Age=43200"} < {
        part.strip() for part in cookie.split(";")
    }


def test_cookie_without_tls_needs_a_setting_and_shows_it(database_url: str) -> None:
    with running(Settings(database_url=database_url, console_cookies="insecure")) as app:
        visitor = Visitor(app, Scope.READ)
        assert visitor.browser.get_cookie("te_console") is not None
        assert "TE_CONSOLE_COOKIES=insecure" in visitor.get("/console")


def test_browser_that_drops_the_cookie_gets_an_explanation_and_no_loop(app: Flask, database: Database) -> None:
    visitor = Visitor(app, Scope.READ)
    visitor.browser.delete_cookie(COOKIE)
    assert "TE_CONSOLE_COOKIES=insecure" in visitor.get("/console/sign-in?signed-in&next=/console")


@each_case("key", ["", "nonsense", "te_0000000000000000_" + "0" * 48])
def test_bad_key_is_refused_in_words(app: Flask, database: Database, key: str) -> None:
    answer = Visitor(app).sign_in(key)
    assert answer.status_code == 401
    assert 'role="alert"' in answer.get_data(as_text=True)
    assert "Set-Cookie" not in answer.headers


def test_many_bad_keys_of_one_address_are_refused(database_url: str) -> None:
    with running(Settings(database_url=database_url, rate_limit_bad_keys="2/hour")) as app:
        visitor = Visitor(app)
        assert [visitor.sign_in("te_1_x").status_code for _ in range(3)] == [401, 401, 429]
        assert visitor.sign_in(api_keys.create(services(app).database, "good", [Scope.READ], None)).status_code == 303


def test_sign_out_ends_the_session(visitor: Visitor) -> None:
    forms = visitor.form("/console", "/console/sign-out")
    secret = visitor.browser.get_cookie(COOKIE)
    assert secret is not None
    assert visitor.send("/console/sign-out", forms).status_code == 303
    visitor.browser.set_cookie(COOKIE, secret.value)
    assert not is_signed_in(visitor)


ENDS: dict[str, Callable[[Database, str], object]] = {
    "time": lambda database, _: database.fetch(text("UPDATE console_sessions SET expires_at = now()")),
    "idleness": lambda database, _: database.fetch(
        text("UPDATE console_sessions SET last_seen_at = now() - INTERVAL '61 minutes'")
    ),
    "revocation": lambda database, key: api_keys.revoke(database, api_keys.id_in(key)),
    "expiry of the key": lambda database, _: database.fetch(text("UPDATE api_keys SET expires_at = now()")),
}


@pytest.mark.parametrize("end", ENDS)
def test_session_ends(visitor: Visitor, app: Flask, database: Database, end: str) -> None:
    forget_caches(app)
    assert is_signed_in(visitor)
    ENDS[end](database, visitor.key)
    assert not is_signed_in(visitor)


def test_session_in_use_is_marked_once_a_minute(visitor: Visitor, app: Flask, database: Database) -> None:
    forget_caches(app)
    seen = text("SELECT last_seen_at FROM console_sessions")
    database.fetch(text("UPDATE console_sessions SET last_seen_at = now() - INTERVAL '59 minutes'"))
    visitor.get("/console")
    (first,) = database.fetch(seen)
    visitor.get("/console")
    assert database.fetch(seen) == [first]
    (age,) = database.fetch(text("SELECT last_seen_at > now() - INTERVAL '1 minute' AS young FROM console_sessions"))
    assert age.young


def test_link_signs_in_once(app: Flask, database: Database) -> None:
    key = api_keys.create(database, "linked", [Scope.READ], None)
    link = console_sessions.new_link(database, api_keys.id_in(key))
    visitor = Visitor(app)
    visitor.browser.set_cookie(COOKIE, link)
    assert not is_signed_in(visitor), "the link itself is no session"
    assert visitor.send("/console/sign-in/link", {"link": link}).status_code == 303
    assert is_signed_in(visitor)
    assert Visitor(app).send("/console/sign-in/link", {"link": link}).status_code == 401


def test_link_replaces_a_session_only_after_a_question(visitor: Visitor, database: Database) -> None:
    link = console_sessions.new_link(database, api_keys.id_in(api_keys.create(database, "other", [Scope.READ], None)))
    before = visitor.browser.get_cookie(COOKIE)
    assert before is not None
    asked = visitor.send("/console/sign-in/link", {"link": link, "next": "/console/jobs"})
    shown = asked.get_data(as_text=True)
    assert "signed in with the key <b>visitor</b>" in shown
    assert 'href="/console/jobs">Stay signed in with visitor' in shown
    assert visitor.browser.get_cookie(COOKIE) == before, "nothing has changed"
    form = next(each for each in Markup(shown).forms if each["action"] == "/console/sign-in/link")
    assert visitor.send("/console/sign-in/link", {**form["fields"], "replace": "on"}).status_code == 303
    assert "Signed in with the key <b>other</b>" in visitor.get("/console")
    visitor.browser.set_cookie(COOKIE, before.value)
    assert not is_signed_in(visitor), "the replaced session has ended"


def test_sign_in_ends_the_session_that_it_replaces(visitor: Visitor, database: Database) -> None:
    before = visitor.browser.get_cookie(COOKIE)
    assert before is not None
    assert visitor.sign_in(api_keys.create(database, "other", [Scope.READ], None)).status_code == 303
    visitor.browser.set_cookie(COOKIE, before.value)
    assert not is_signed_in(visitor)


def test_cookies_of_no_session_count_as_bad_keys_of_their_address(database_url: str) -> None:
    with running(Settings(database_url=database_url, rate_limit_bad_keys="2/hour")) as app:
        visitor, stranger = Visitor(app, Scope.READ), Visitor(app)

        def presented(cookie: str) -> int:
            stranger.browser.set_cookie(COOKIE, cookie)
            status: int = stranger.browser.get("/console").status_code
            return status

        repeated = [presented("x") for _ in range(4)]
        assert repeated == [303] * 4, "a text that is remembered costs no look-up, and is not counted again"
        assert [presented(text_) for text_ in "abc"] == [303] * 3, "a person whose session has ended finds the sign-in"
        assert stranger.sign_in("te_1_x").status_code == 429
        assert is_signed_in(visitor), "a session is accepted from any address"
        assert stranger.sign_in(visitor.key).status_code == 303
        assert is_signed_in(stranger), "a session that has just begun, too"


def test_refused_cookie_costs_no_look_up(database_url: str) -> None:
    with running(Settings(database_url=database_url, rate_limit_bad_keys="1/hour")) as app:
        stranger, statements = Visitor(app), Statements()
        event.listen(services(app).database.engine, "before_cursor_execute", statements)
        for cookie in "abcd":
            stranger.browser.set_cookie(COOKIE, cookie)
            stranger.browser.get("/console")
        assert sum("WITH seen" in statement for statement in statements.texts) == 1


def test_links_are_refused_as_bad_keys_are(database_url: str) -> None:
    with running(Settings(database_url=database_url, rate_limit_bad_keys="2/hour")) as app:
        stranger, statements = Visitor(app), Statements()
        event.listen(services(app).database.engine, "before_cursor_execute", statements)
        answers = [stranger.send("/console/sign-in/link", {"link": link}).status_code for link in "abc"]
        assert answers == [401, 401, 429]
        assert sum("UPDATE console_sessions" in statement for statement in statements.texts) == 2


def test_new_cookies_beside_links_cost_no_look_up(database_url: str) -> None:
    with running(Settings(database_url=database_url, rate_limit_bad_keys="1/hour")) as app:
        stranger, statements = Visitor(app), Statements()
        event.listen(services(app).database.engine, "before_cursor_execute", statements)
        for cookie in "abcd":
            stranger.browser.set_cookie(COOKIE, cookie)
            assert stranger.send("/console/sign-in/link", {"link": "x"}).status_code == 429
        assert sum("WITH seen" in statement for statement in statements.texts) == 1


def test_flood_of_cookies_displaces_no_session(visitor: Visitor, app: Flask) -> None:
    sessions = services(app).sessions
    assert is_signed_in(visitor)
    for number in range(console_sessions.CACHE_SIZE + 1):
        sessions.verify(f"no session {number}")
    cookie = visitor.browser.get_cookie(COOKIE)
    assert cookie is not None
    assert sessions.is_known(cookie.value)


def test_old_link_is_refused(app: Flask, database: Database) -> None:
    key = api_keys.create(database, "linked", [Scope.READ], None)
    link = console_sessions.new_link(database, api_keys.id_in(key))
    database.fetch(text("UPDATE console_sessions SET expires_at = now()"))
    assert Visitor(app).send("/console/sign-in/link", {"link": link}).status_code == 401


def test_api_takes_no_cookie_and_the_console_no_key(app: Flask, visitor: Visitor, api: Api) -> None:
    assert visitor.browser.get("/workers").status_code == 401
    assert visitor.browser.post("/jobs", json={}, headers=OWN).status_code == 401
    assert api.get("/console").status_code == 303


def test_console_can_be_switched_off(database_url: str) -> None:
    with running(Settings(database_url=database_url, console="off")) as app:
        assert app.test_client().get("/console").status_code == 404
        assert app.test_client().get("/console/sign-in").status_code == 404


@pytest.mark.parametrize("query", ["action=retry&endpoint=a&status=FAILED", "name=http://x/console&endpoint=a"])
def test_sign_in_leads_back_with_the_whole_filter(app: Flask, database: Database, query: str) -> None:
    path = f"/console/executions?{query}"
    visitor = Visitor(app)
    (form, *_) = Markup(visitor.get(visitor.browser.get(path).headers["Location"])).forms
    begun = visitor.sign_in(api_keys.create(database, "k", [Scope.READ], None), **form["fields"])
    assert visitor.browser.get(begun.headers["Location"]).headers["Location"] == path


@each_case(
    "next_", ["https://evil.example/console", "//evil.example", "/jobs", "/consolex", "/console\\x", "javascript:1"]
)
def test_sign_in_leads_to_pages_of_the_console_only(app: Flask, database: Database, next_: str) -> None:
    visitor = Visitor(app)
    answer = visitor.sign_in(api_keys.create(database, "k", [Scope.READ], None), next=next_)
    there = visitor.browser.get(answer.headers["Location"]).headers["Location"]
    assert there == "/console"
