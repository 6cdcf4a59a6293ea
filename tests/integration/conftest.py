"""Fixtures of the integration ring: the API through Flask's test client, on a real database."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cryptography.fernet import Fernet
from flask import Flask
from sqlalchemy import event
from werkzeug.test import TestResponse

from app.access import api_keys
from app.access.api_keys import Scope
from app.api import create_app
from app.api.services import EXTENSION, Services
from app.config import Settings
from app.db import Database
from tests.integration.http import document

SECRET_KEY = Fernet.generate_key().decode()


class Api:
    """A client with a key; `client.post("/jobs", {...})` returns the response."""

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


class Statements:
    """Records what this thread sends to the database; the hints to workers have a thread of their own."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.in_autocommit: list[bool] = []
        self._thread = threading.get_ident()

    def clear(self) -> None:
        """Forget what was sent so far."""
        self.texts.clear()
        self.in_autocommit.clear()

    def __call__(self, _connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if threading.get_ident() == self._thread:
            self.in_autocommit.append(cursor.connection.autocommit)
            self.texts.append(" ".join(statement.split()))


@pytest.fixture
def settings(database_url: str) -> Settings:
    return Settings(database_url=database_url, secret_encryption_key=SECRET_KEY, db_pool_size=10)


@contextmanager
def running(settings: Settings) -> Iterator[Flask]:
    """Build an application, and close what it opened."""
    with quiet(create_app(settings)) as app:
        yield app


@contextmanager
def quiet(app: Flask) -> Iterator[Flask]:
    """Send no hints to workers: those have tests of their own, and their thread would outlive the database."""
    services(app).notifier.hint = lambda _queue: None  # type: ignore[method-assign]
    yield app
    services(app).database.close()


@contextmanager
def another_process(api: "Api") -> Iterator["Api"]:
    """A client with the same key of an application that shares nothing with the first but its database."""
    with running(services(api.app).settings) as app:
        yield Api(app, api.key)


@pytest.fixture
def app(settings: Settings) -> Iterator[Flask]:
    """The application that all tests share, with services of this test alone: caches, counters, a database."""
    app = document.application()
    app.extensions[EXTENSION] = Services.connect(settings)
    with quiet(app):
        yield app


@pytest.fixture
def database(app: Flask) -> Database:
    return services(app).database


@pytest.fixture
def api(app: Flask, database: Database) -> Api:
    """A client with the scope admin."""
    return Api(app, api_keys.create(database, "test", [Scope.ADMIN], None))


@pytest.fixture(scope="module")
def shared_api(module_database_url: str) -> Iterator[Api]:
    """A client with the scope admin on a database of this module: for requests that change nothing."""
    settings = Settings(database_url=module_database_url, secret_encryption_key=SECRET_KEY, db_pool_size=2)
    with running(settings) as app:
        yield Api(app, api_keys.create(services(app).database, "test", [Scope.ADMIN], None))


@pytest.fixture
def statements(database: Database) -> Iterator[Statements]:
    """What is sent to the database from now on."""
    recorded = Statements()
    event.listen(database.engine, "before_cursor_execute", recorded)
    yield recorded
    event.remove(database.engine, "before_cursor_execute", recorded)


def services(app: Flask) -> Services:
    found: Services = app.extensions[EXTENSION]
    return found


def problem(response: TestResponse, status: int, code: str) -> dict[str, Any]:
    """Check that an answer is the envelope with this status and code, and return what is in it."""
    assert (response.status_code, response.json["error"]["code"]) == (status, code), response.get_data(as_text=True)
    assert set(response.json) == {"error"}
    error: dict[str, Any] = response.json["error"]
    assert set(error) == {"code", "message", "request_id", "details", "retryable"}
    assert error["request_id"] == response.headers["X-Request-ID"]
    assert all(set(detail) == {"pointer", "message"} for detail in error["details"])
    return error


def pointers(error: dict[str, Any]) -> list[str]:
    return [detail["pointer"] for detail in error["details"]]
