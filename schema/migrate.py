"""Migration of a database to the newest schema, safe from several processes at once."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from schema.url import database_url

T = TypeVar("T")

LEASE_SECONDS = 60
WAIT_SECONDS = 180

# An advisory lock would be simpler, but CockroachDB has none that can be relied on.
CREATE_LEASE = text(
    "CREATE TABLE IF NOT EXISTS migration_lease (id TEXT NOT NULL, holder TEXT NOT NULL, "
    "expires_at TIMESTAMPTZ NOT NULL, CONSTRAINT pk_migration_lease PRIMARY KEY (id))"
)
TAKE_LEASE = text(
    "INSERT INTO migration_lease (id, holder, expires_at) "
    "VALUES ('schema', :holder, now() + :seconds * INTERVAL '1 second') "
    "ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at "
    "WHERE migration_lease.expires_at < now() OR migration_lease.holder = excluded.holder RETURNING holder"
)
DROP_LEASE = text("DELETE FROM migration_lease WHERE id = 'schema' AND holder = :holder")

# Two CREATE TABLE IF NOT EXISTS at the same instant: PostgreSQL may answer 23505, 42P07 or 42710 to one of them.
_RACE = {"23505", "42P07", "42710", "40001", "40P01"}


class MigrationBusyError(RuntimeError):
    """Another migrator held the lease for longer than this one was willing to wait."""


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def head() -> str:
    """Return the newest revision that this code knows."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    if revision is None:
        raise RuntimeError("schema/migrations holds no revision")
    return revision


def current(connection: Connection) -> str | None:
    """Return the revision of the database; None when it was never migrated."""
    return MigrationContext.configure(connection).get_current_revision()


def upgrade(url: str, *, wait_seconds: float = WAIT_SECONDS) -> str:
    """Migrate the database to the newest revision and return its name; does nothing when it is there or further.

    Raises MigrationBusyError when another migrator holds the lease for `wait_seconds`.
    """
    engine = create_engine(database_url(url), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    holder = uuid.uuid4().hex
    with engine.connect() as connection, _lease(engine, holder, wait_seconds) as renew:
        found = current(connection)
        if found is not None and found > head():
            return found  # migrated by newer code, whose release was rolled back: processes start on it all the same
        config = _config()
        config.attributes["connection"] = connection
        config.attributes["on_version_apply"] = lambda **_: renew()
        command.upgrade(config, "head")
        return head()


@contextmanager
def _lease(engine: Engine, holder: str, wait_seconds: float) -> Iterator[Callable[[], None]]:
    """Hold the migrators' lease; yields a function that renews it."""
    with engine.connect() as connection:
        _retrying(lambda: connection.execute(CREATE_LEASE))
        deadline = time.monotonic() + wait_seconds
        while not _take(connection, holder):
            if time.monotonic() > deadline:
                raise MigrationBusyError(f"another migrator has held the lease for {wait_seconds:.0f} s")
            time.sleep(0.2)
        try:
            yield lambda: _renew(connection, holder)
        finally:
            connection.execute(DROP_LEASE, {"holder": holder})


def _take(connection: Connection, holder: str) -> bool:
    row = _retrying(lambda: connection.execute(TAKE_LEASE, {"holder": holder, "seconds": LEASE_SECONDS}).first())
    return row is not None


def _renew(connection: Connection, holder: str) -> None:
    if not _take(connection, holder):
        raise MigrationBusyError("the lease ran out during a step and another migrator took over")


def _retrying(run: Callable[[], T]) -> T:
    for _ in range(10):
        try:
            return run()
        except DBAPIError as error:
            if getattr(error.orig, "pgcode", None) not in _RACE:
                raise
            time.sleep(0.05)
    return run()
