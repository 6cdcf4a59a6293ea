"""Client of the API through Flask's test client, and checks that all answers share."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cryptography.fernet import Fernet
from flask import Flask
from werkzeug.test import TestResponse

from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.config import Settings
from app.web.application import create_app
from app.web.services import EXTENSION, Services
from tests.integration.http import document

SECRET_KEY = Fernet.generate_key().decode()


class Api:
    """Client of the API that sends one key; `api.post("/jobs", {...})` returns the response."""

    def __init__(self, app: Flask, key: str | None) -> None:
        self.app = app
        self.key = key
        self._client = app.test_client()
        self._headers = {} if key is None else {"Authorization": f"Bearer {key}"}

    def send(self, method: str, path: str, *, headers: dict[str, str] | None = None, **kwargs: Any) -> TestResponse:
        """Send a request, and check that the OpenAPI document describes the answer."""
        response = self._client.open(path, method=method, headers={**self._headers, **(headers or {})}, **kwargs)
        document.check(self.app, response)
        return response

    def get(self, path: str, **query: Any) -> TestResponse:
        return self.send("GET", path, query_string=query)

    def post(self, path: str, body: Any = None, **kwargs: Any) -> TestResponse:
        return self.send("POST", path, json=body, **kwargs) if body is not None else self.send("POST", path, **kwargs)

    def put(self, path: str, body: Any, **kwargs: Any) -> TestResponse:
        return self.send("PUT", path, json=body, **kwargs)

    def delete(self, path: str, **kwargs: Any) -> TestResponse:
        return self.send("DELETE", path, **kwargs)


@contextmanager
def running(settings: Settings) -> Iterator[Flask]:
    """Build an application, and close what it opened."""
    with quiet(create_app(settings)) as app:
        yield app


@contextmanager
def quiet(app: Flask) -> Iterator[Flask]:
    """Replace the hints to workers by nothing: their thread would outlive the database. Other tests cover hints."""
    services(app).notifier.hint = lambda _queue, _place=None: None  # type: ignore[method-assign]
    yield app
    services(app).waits.stop()
    services(app).database.close()


@contextmanager
def another_process(api: "Api") -> Iterator["Api"]:
    """Build a second application on the same database, and yield a client with the same key."""
    with running(services(api.app).settings) as app:
        yield Api(app, api.key)


def services(app: Flask) -> Services:
    found: Services = app.extensions[EXTENSION]
    return found


def administrator(app: Flask) -> Api:
    """Create a key with the scope admin, and a client that sends it."""
    return Api(app, api_keys.create(services(app).database, "test", [Scope.ADMIN], None))


def problem(response: TestResponse, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is the error envelope with this status and code, and return the error."""
    assert (response.status_code, response.json["error"]["code"]) == (status, code), response.get_data(as_text=True)
    assert set(response.json) == {"error"}
    error: dict[str, Any] = response.json["error"]
    assert set(error) == {"code", "message", "request_id", "details", "retryable"}
    assert error["request_id"] == response.headers["X-Request-ID"]
    assert all(set(detail) == {"pointer", "message"} for detail in error["details"])
    return error


def pointers(error: dict[str, Any]) -> list[str]:
    return [detail["pointer"] for detail in error["details"]]


def read_all_pages(api: Api, path: str, key: str, *, limit: int = 3, **filters: Any) -> list[str]:
    """Read all pages and return the field `key` of each item."""
    found: list[str] = []
    cursor = None
    while True:
        page = api.get(path, limit=limit, **filters, **({"cursor": cursor} if cursor else {}))
        assert page.status_code == 200, page.get_data(as_text=True)
        assert set(page.json) == {"items", "cursor"}
        assert len(page.json["items"]) <= limit
        found += [item[key] for item in page.json["items"]]
        cursor = page.json["cursor"]
        if cursor is None:
            return found
