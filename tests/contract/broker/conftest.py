"""Fixtures of the broker's tests: the numbers of shards, a database that can fail, a finalizer."""

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
    """Start a finalizer on a way to the database; ended afterwards, whatever it still has."""
    started: list[Running] = []

    def start(own: Database) -> Running:
        started.append(Running(database, own))
        return started[-1]

    yield start
    for running in started:
        running.finalizer.abandon()
        running.finalizer.stop(60)


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A server that takes everything and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        yield listener
