"""Fixtures of every ring: real servers, started at the first use and shared by the session; a database per test.

TEST_DATABASE_URL runs the suite on a given cluster, PostgreSQL or CockroachDB, whose user may create databases.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing

import pytest

from app.dev.receiver import Receiver
from app.dev.servers import Postgres, Tansu, Valkey
from tests.servers import Cluster, Copies, start_or_skip
from tests.turns import spread

# The hundreds of processes that tests start find compiled what the first of them has compiled, as installed ones do.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

Lend = Callable[[], AbstractContextManager[str]]


def pytest_configure(config: pytest.Config) -> None:
    """Have pytest-xdist take the files in our order: its own leaves those with few tests, the longest, to the end."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files; refuse two tests of one name: pytest-xdist would run only one of them."""
    turns = spread(dict.fromkeys(map(_file, items)))
    items.sort(key=lambda item: turns[_file(item)])
    twice = [name for name, count in Counter(item.nodeid for item in items).items() if count > 1]
    if twice:
        raise pytest.UsageError(f"several tests have the same name: {', '.join(twice)}")


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Our own PostgreSQL, without durability; a test that kills one starts another."""
    with start_or_skip(Postgres(fast=True)) as server:
        yield server


@pytest.fixture(scope="session")
def valkey() -> Iterator[Valkey]:
    with start_or_skip(Valkey()) as server:
        yield server


@pytest.fixture(scope="session")
def kafka() -> Iterator[Tansu]:
    with start_or_skip(Tansu()) as server:
        yield server


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    """One receiver for the session: let each test post to paths of its own, such as /ok/<name of the test>."""
    with Receiver() as server:
        yield server


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Cluster:
    given = os.environ.get("TEST_DATABASE_URL")
    return Cluster(given or request.getfixturevalue("postgres").url)


@pytest.fixture(autouse=True)
def _skip_what_is_for_postgresql_only(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("postgresql_only") and request.getfixturevalue("cluster").is_cockroach:
        pytest.skip("uses what only PostgreSQL understands")


@pytest.fixture(scope="session")
def migrated(cluster: Cluster) -> Iterator[Lend]:
    """Lend migrated databases: copies of one that is migrated once, but on CockroachDB, which cannot copy any."""
    if cluster.is_cockroach:
        yield cluster.migrated
        return
    with cluster.migrated() as template, closing(Copies(cluster, template)) as copies:
        yield copies.lend


@pytest.fixture
def empty_database_url(cluster: Cluster) -> Iterator[str]:
    """A database without a schema, dropped afterwards."""
    url = cluster.create()
    yield url
    cluster.drop(url)


@pytest.fixture
def database_url(migrated: Lend) -> Iterator[str]:
    """A migrated database of this test alone, dropped afterwards."""
    with migrated() as url:
        yield url


@pytest.fixture(scope="module")
def module_database_url(migrated: Lend) -> Iterator[str]:
    """A migrated database of this module, for tests that leave it as it was or clear it themselves."""
    with migrated() as url:
        yield url
