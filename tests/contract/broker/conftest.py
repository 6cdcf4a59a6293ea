"""Fixtures of the broker's tests: shard counts, database faults on demand, a running finalizer, a silent server."""

import socket
from collections.abc import Iterator

import pytest

from app.kernel.db import Database
from tests.contract.broker.faults import Faults
from tests.contract.broker.finalizing import Run, Running
from tests.contract.conftest import SHARDS


@pytest.fixture(params=SHARDS)
def shards(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def faults(database: Database) -> Faults:
    if database.is_cockroach:
        pytest.skip("needs PL/pgSQL to fail on demand")
    return Faults(database)


@pytest.fixture
def run(database: Database) -> Iterator[Run]:
    """Return a function that starts a finalizer on a given database connection pool.

    After the test each finalizer drops its pending results and stops.
    """
    started: list[Running] = []

    def start(finalizer_database: Database) -> Running:
        started.append(Running(database, finalizer_database))
        return started[-1]

    yield start
    for running in started:
        running.finalizer.abandon()
        running.finalizer.stop(60)


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        yield listener
