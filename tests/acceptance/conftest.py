"""Fixtures of the acceptance tests: a stack of real processes and an API client."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from app.dev.stack.runner import Stack
from app.dev.stack.stack_client import Api
from app.kernel import db
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    database = db.connect(database_url, pool_size=5, application_name="te-test")
    yield database
    database.close()


@contextmanager
def stack_over(database_url: str, logs: Path) -> Iterator[Stack]:
    """Make a stack over a migrated database, without processes; kill its remaining processes at the end."""
    stack = Stack(database_url=database_url, commands={}, env={"TE_STARTUP_TIMEOUT_SEC": "60"}, logs=logs)
    try:
        yield stack
    finally:
        stack.stop(timeout=0)


@pytest.fixture
def stack(database_url: str, tmp_path: Path) -> Iterator[Stack]:
    """A stack over the database of the test; the test starts the processes that it needs."""
    with stack_over(database_url, tmp_path) as stack:
        yield stack


@pytest.fixture
def api(stack: Stack, database: Database) -> Iterator[Api]:
    """A client of the stack's API with the scope admin; the test starts the API itself."""
    api = client_of(stack, database)
    yield api
    api.close()


@pytest.fixture(scope="module")
def shared_stack(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack without processes for all tests of a module; for modules whose tests end no process and count no row."""
    with stack_over(module_database_url, tmp_path_factory.mktemp("logs")) as stack:
        yield stack


@pytest.fixture(scope="module")
def shared_database(module_database_url: str) -> Iterator[Database]:
    """The database of the shared stack."""
    with closing(db.connect(module_database_url, pool_size=5, application_name="te-test")) as database:
        yield database


@pytest.fixture(scope="module")
def shared_api(shared_stack: Stack, shared_database: Database) -> Iterator[Api]:
    """A client of the shared stack's API with the scope admin; the module starts the API."""
    with closing(client_of(shared_stack, shared_database)) as api:
        yield api


def client_of(stack: Stack, database: Database) -> Api:
    """Return a client with a key made in the database, which is faster than the command."""
    return Api(stack.url, api_keys.create(database, "test", [Scope.ADMIN], None))
