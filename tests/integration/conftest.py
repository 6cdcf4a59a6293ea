"""Fixtures of the integration ring: the API through Flask's test client, on a real database."""

from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import event

from app.kernel.config import Settings
from app.kernel.db import Database
from app.web.services import EXTENSION, Services
from tests.integration.client import SECRET_KEY, Api, administrator, quiet, running, services
from tests.integration.http import document
from tests.integration.statements import Statements


@pytest.fixture
def settings(database_url: str) -> Settings:
    return Settings(database_url=database_url, secret_encryption_key=SECRET_KEY, db_pool_size=10)


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
    return administrator(app)


@pytest.fixture(scope="module")
def shared_api(module_database_url: str) -> Iterator[Api]:
    """A client with the scope admin on a database of this module: for requests that change nothing."""
    settings = Settings(database_url=module_database_url, secret_encryption_key=SECRET_KEY, db_pool_size=2)
    with running(settings) as app:
        yield administrator(app)


@pytest.fixture
def statements(database: Database) -> Iterator[Statements]:
    """What is sent to the database from now on."""
    recorded = Statements()
    event.listen(database.engine, "before_cursor_execute", recorded)
    yield recorded
    event.remove(database.engine, "before_cursor_execute", recorded)
