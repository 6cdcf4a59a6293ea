"""Visitor of the console: a browser without JavaScript, through Flask's test client."""

from html.parser import HTMLParser
from typing import Any

from flask import Flask
from werkzeug.test import TestResponse

from app.console.views import places
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from tests.integration.client import services

_VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
OWN = {"Sec-Fetch-Site": "same-origin"}


class Markup(HTMLParser):
    """Checked markup of a page: `faults` names unclosed elements and repeated ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.forms: list[dict[str, Any]] = []
        self._open: list[str] = []
        self._ids: set[str] = set()
        self.feed(text)
        self.close()
        self.faults += [f"<{tag}> is not closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        id_ = found.get("id")
        if id_ is not None and id_ in self._ids:
            self.faults.append(f"id {id_} twice")
        self._ids.add(id_ or "")
        if tag == "form":
            self.forms.append({"action": found.get("action"), "fields": {}})
        elif tag == "input" and found.get("type") == "hidden" and "form" in self._open:
            self.forms[-1]["fields"][found["name"]] = found.get("value") or ""
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.faults.append(f"</{tag}> closes nothing")
            self._open = [*self._open, ""]


class Visitor:
    """A person with a browser; signs in with a key of some scopes."""

    def __init__(self, app: Flask, *scopes: Scope) -> None:
        self.app = app
        self.browser = app.test_client()
        self.key = api_keys.create(services(app).database, "visitor", scopes, None) if scopes else ""
        if scopes:
            assert self.sign_in(self.key).status_code == 303

    def sign_in(self, key: str, **fields: str) -> TestResponse:
        return self.browser.post("/console/sign-in", data={"key": key, **fields}, headers=OWN)

    def get(self, path: str, status: int = 200, *, headers: dict[str, str] | None = None) -> str:
        """Read a page, and check its status and its markup."""
        answer = self.browser.get(path, headers=headers or {})
        text = answer.get_data(as_text=True)
        assert answer.status_code == status, text
        assert Markup(text).faults == [], text
        return text

    def form(self, path: str, action: str) -> dict[str, str]:
        """Return the hidden fields of a form on a page; fails if the page does not have the form."""
        forms = Markup(self.get(path)).forms
        found: dict[str, str] = next(each["fields"] for each in forms if each["action"] == action)
        return found

    def has_form(self, path: str, action: str) -> bool:
        return any(each["action"] == action for each in Markup(self.get(path)).forms)

    def send(self, action: str, fields: dict[str, str] | None = None, **headers: str) -> TestResponse:
        """Send a form as a browser does."""
        return self.browser.post(action, data=fields or {}, headers=headers or OWN)

    def act(self, path: str, action: str, **fields: str) -> str:
        """Send a form of a page with further fields, and return the page that follows."""
        answer = self.send(action, {**self.form(path, action), **fields})
        assert answer.status_code == 303, answer.get_data(as_text=True)
        return self.get(answer.headers["Location"])


def page_rule(app: Flask, kind: str) -> str:
    """Return the rule of the page of a thing; its id has characters with a meaning in addresses."""
    address = places.place_of(kind, "a/b?c#d")
    assert "a/b" not in address
    endpoint, _ = app.url_map.bind("x").match(address.partition("#")[0])
    return next(rule.rule for rule in app.url_map.iter_rules() if rule.endpoint == endpoint)
