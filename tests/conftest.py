"""Fixtures of all rings: real servers, started on first use and shared by the session, and a database per test.

`TEST_DATABASE_URL` runs the suite on an existing PostgreSQL or CockroachDB whose user may create databases.
`TEST_POSTGRESQL_BIN=/usr/lib/postgresql/15/bin` runs it on the PostgreSQL of that folder instead of the wheel's.
`TEST_AS=cockroachdb` runs it on a PostgreSQL that stands in for CockroachDB.
"""

import fcntl
import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import settings

from app.dev.receiver import Receiver
from app.dev.servers import Postgres, Tansu, Valkey
from tests.cases import IS_WHOLE
from tests.open_databases import OpenDatabases
from tests.servers import Cluster, Copies, ReusedDatabases, given_programs, start_or_skip
from tests.turns import spread

# Tests start hundreds of processes: share compiled bytecode among them, as an installation does. For pytest, which
# compiles assertions, it takes half of the time of a collection.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A busy machine must fail no test: Hypothesis allows each example 200 ms by default. CI draws other examples for each
# Python, so it needs fewer of them in each run than the default.
settings.register_profile("project", deadline=None, max_examples=100 if IS_WHOLE else 40)
settings.load_profile("project")

Lend = Callable[[], AbstractContextManager[str]]

SECONDS_WITH_MIGRATION = 1800
"""Timeout of a test on a CockroachDB cluster, where each index is a job of the server."""


def pytest_configure(config: pytest.Config) -> None:
    """Keep our order of files in pytest-xdist: its default runs files with few tests last, which take longest."""
    config.option.loadscopereorder = False


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import the test modules without the garbage collector, which would find none and take a fifth of the time.

    Later collections skip these modules, which live until the end. In a fresh clone, pytest compiles them, which takes
    longer than the rest: the first process of pytest-xdist does this for the others.
    """
    gc.disable()
    try:
        with _after_the_first():
            return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the slow files; refuse duplicate test names, because pytest-xdist would run only one of the tests.

    The timeout of a test includes its fixtures, so it needs time for a migration on a CockroachDB cluster.
    """
    if os.environ.get("TEST_DATABASE_URL", "").startswith("cockroachdb"):
        for item in items:
            item.add_marker(pytest.mark.timeout(SECONDS_WITH_MIGRATION), append=False)
    turns = spread(dict.fromkeys(map(_file, items)))
    items.sort(key=lambda item: turns[_file(item)])
    twice = [name for name, count in Counter(item.nodeid for item in items).items() if count > 1]
    if twice:
        raise pytest.UsageError(f"several tests have the same name: {', '.join(twice)}")


@contextmanager
def _after_the_first() -> Iterator[None]:
    """Run the block alone in the first of several processes that come at the same time, and then in all others."""
    folder = os.open(Path(__file__).parent, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(folder, fcntl.LOCK_SH)
        yield
    finally:
        os.close(folder)


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Shared PostgreSQL without durability; a test that kills its server starts a separate server."""
    with start_or_skip(Postgres(fast=True, programs=given_programs())) as server:
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
    """One receiver for the session: each test posts to its own paths, such as /ok/<name of the test>."""
    with Receiver() as server:
        yield server


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    given = os.environ.get("TEST_DATABASE_URL")
    imitates = os.environ.get("TEST_AS") == "cockroachdb"
    with closing(Cluster(given or request.getfixturevalue("postgres").url, imitates_cockroach=imitates)) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _skip_other_engines(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("postgresql_only") and request.getfixturevalue("cluster").is_cockroach:
        pytest.skip("the test uses a PostgreSQL feature that CockroachDB lacks")
    if request.node.get_closest_marker("reflection") and request.getfixturevalue("cluster").imitates:
        pytest.skip("the dialect of CockroachDB reads columns of the catalog that PostgreSQL lacks")


@pytest.fixture(scope="session")
def databases(cluster: Cluster) -> Iterator[Copies | ReusedDatabases]:
    """Migrated databases: copies of one migrated template; on CockroachDB, which has none, cleared databases."""
    if cluster.is_cockroach:
        with closing(ReusedDatabases(cluster)) as reused:
            yield reused
        return
    template = cluster.migrated()
    with closing(Copies(cluster, template)) as copies:
        yield copies
    cluster.drop(template)


@pytest.fixture(scope="session")
def open_databases(databases: Copies | ReusedDatabases) -> OpenDatabases:
    """Lend open databases to tests, which get their connections with the database of an earlier test."""
    return databases.open


@pytest.fixture(scope="session")
def migrated(databases: Copies | ReusedDatabases) -> Lend:
    """Lend migrated databases that no test has had before, except on CockroachDB."""
    return databases.lend


@pytest.fixture
def empty_database_url(cluster: Cluster) -> Iterator[str]:
    """Database without a schema, dropped after the test."""
    url = cluster.create()
    yield url
    cluster.drop(url)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, databases: Copies | ReusedDatabases) -> Iterator[str]:
    """Migrated database of one test: a new one where processes or plans are tested, else it may be a cleared one."""
    needs_new = any(map(request.node.get_closest_marker, ("acceptance", "own_faults", "postgresql_only")))
    with databases.lend() if needs_new else databases.lend_cleared() as url:
        yield url


@pytest.fixture(scope="module")
def module_database_url(migrated: Lend) -> Iterator[str]:
    """Migrated database of one module, for tests that leave no changes or remove them."""
    with migrated() as url:
        yield url
