"""Fixtures of the integration ring: the API through Flask's test client, on a real database."""

from collections.abc import Iterator

import pytest
from flask import Flask
from sqlalchemy import event

from app.features import FEATURES
from app.features.control import shared_figures
from app.kernel.access.api_keys import Scope
from app.kernel.config import Settings
from app.kernel.db import Database
from app.kernel.processes import worker_lease
from app.web.services import APPLICATION_NAME, EXTENSION, POOL_SIZE, Services
from tests.console_story import Story
from tests.integration.client import SECRET_KEY, Api, administrator, quiet, running, services
from tests.integration.command_line import Cli
from tests.integration.console.visitor import Visitor
from tests.integration.executions.worker import WORKER
from tests.integration.http import document
from tests.integration.registered import created, one_shot, register
from tests.integration.statements import Statements
from tests.open_databases import OpenDatabases


@pytest.fixture
def settings(database_url: str) -> Settings:
    return Settings(database_url=database_url, secret_encryption_key=SECRET_KEY, db_pool_size=10)


@pytest.fixture
def app(settings: Settings, open_databases: OpenDatabases) -> Iterator[Flask]:
    """Return the application that all tests share, with new services for this test: caches, counters, a database."""
    app = document.application()
    url, size = settings.database_url, settings.db_pool_size or POOL_SIZE
    with open_databases.lend(url, pool_size=size, application_name=APPLICATION_NAME) as database:
        app.extensions[EXTENSION] = Services(settings, FEATURES, database)
        app.extensions.pop(shared_figures.EXTENSION, None)
        with quiet(app):
            yield app


@pytest.fixture
def database(app: Flask) -> Database:
    return services(app).database


@pytest.fixture
def api(app: Flask, database: Database) -> Api:
    """Return a client with the scope admin."""
    return administrator(app)


@pytest.fixture
def operator(app: Flask) -> Visitor:
    """Return a visitor of the console with the scopes read and jobs:write."""
    return Visitor(app, Scope.READ, Scope.JOBS_WRITE)


@pytest.fixture
def story(database: Database) -> Story:
    return Story(database)


@pytest.fixture
def registered(api: Api) -> Api:
    """Return the client with the scope admin, after registering the HTTP endpoint `target`."""
    register(api)
    return api


@pytest.fixture(scope="module")
def shared_api(module_database_url: str) -> Iterator[Api]:
    """Return a client with the scope admin on a database of this module, for requests that change nothing."""
    settings = Settings(database_url=module_database_url, secret_encryption_key=SECRET_KEY, db_pool_size=2)
    with running(settings) as app:
        yield administrator(app)


@pytest.fixture
def statements(database: Database) -> Iterator[Statements]:
    """Record the statements that this test sends to the database."""
    recorded = Statements()
    event.listen(database.engine, "before_cursor_execute", recorded)
    yield recorded
    event.remove(database.engine, "before_cursor_execute", recorded)


@pytest.fixture
def cli(api: Api) -> Cli:
    """Return the program `flask` on the database of the client."""
    return Cli(api)


@pytest.fixture
def execution_id(api: Api, database: Database) -> str:
    """Create a one-shot execution with three attempts, and a worker."""
    register(api, retry_policy={"max_attempts": 3})
    worker_lease.register(
        database, worker_id=WORKER, host="h", pid=1, queues=["http", "kafka"], capacity=9, lease_ms=60_000
    )
    found: str = created(api, one_shot("k"))["execution"]["execution_id"]
    return found
