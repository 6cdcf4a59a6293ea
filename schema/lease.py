"""Lease of the migrator: at most one migrator runs at a time; after its death another migrator may take over."""

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Connection, CursorResult, Engine, TextClause, text
from sqlalchemy.exc import DBAPIError

# An advisory lock would be simpler, but CockroachDB has no reliable advisory locks.
CREATE = text(
    "CREATE TABLE IF NOT EXISTS migration_lease (id TEXT NOT NULL, holder TEXT NOT NULL, "
    "expires_at TIMESTAMPTZ NOT NULL, CONSTRAINT pk_migration_lease PRIMARY KEY (id))"
)
TAKE = text(
    "INSERT INTO migration_lease (id, holder, expires_at) "
    "VALUES ('schema', :holder, now() + :seconds * INTERVAL '1 second') "
    "ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at "
    "WHERE migration_lease.expires_at < now() OR migration_lease.holder = excluded.holder RETURNING holder"
)
_DROP = text("DELETE FROM migration_lease WHERE id = 'schema' AND holder = :holder")

# PostgreSQL may fail one of two concurrent CREATE TABLE IF NOT EXISTS with 23505, 42P07 or 42710.
_RACE = {"23505", "42P07", "42710", "40001", "40P01"}


class MigrationBusyError(RuntimeError):
    """Another migrator holds the lease, or may hold it."""


class MigrationLease:
    """Lease that a thread renews while a statement runs, however long the statement takes."""

    def __init__(self, engine: Engine, seconds: float) -> None:
        self._engine = engine
        self._seconds = seconds
        self._holder = uuid.uuid4().hex
        self._ends_at = float("-inf")  # by monotonic(), and never later than by the database's clock
        self._stopping = threading.Event()

    def check(self) -> None:
        """Raise MigrationBusyError once the lease may belong to another migrator."""
        if time.monotonic() >= self._ends_at:
            raise MigrationBusyError("lost the lease: another migrator may have taken over; run the upgrade again")

    def take(self, wait_seconds: float) -> None:
        """Wait for the lease; raises MigrationBusyError after `wait_seconds`."""
        with self._engine.connect() as connection:
            _execute(connection, CREATE, {})
            deadline = time.monotonic() + wait_seconds
            while not self._try_to_take(connection):
                if time.monotonic() > deadline:
                    raise MigrationBusyError(f"another migrator has held the lease for {wait_seconds:.0f} s")
                time.sleep(0.2)

    def keep(self) -> None:
        """Renew the lease until it is stopped or another migrator holds it; the body of a thread."""
        while not self._stopping.wait(self._seconds / 3):
            # The next iteration opens a new connection; `check` fails once the lease has expired.
            with suppress(DBAPIError), self._engine.connect() as connection:
                if not self._try_to_take(connection):
                    self._ends_at = float("-inf")
                    return

    def stop(self) -> None:
        """End `keep`, which may be waiting for the database."""
        self._stopping.set()

    def drop(self) -> None:
        """Release the lease; if that fails, the next migrator waits until the lease expires."""
        with suppress(DBAPIError), self._engine.connect() as connection:
            connection.execute(_DROP, {"holder": self._holder})

    def _try_to_take(self, connection: Connection) -> bool:
        began = time.monotonic()
        params = {"holder": self._holder, "seconds": self._seconds}
        if _execute(connection, TAKE, params).first() is None:
            return False
        self._ends_at = began + self._seconds
        return True


@contextmanager
def held(engine: Engine, *, seconds: float, wait_seconds: float) -> Iterator[MigrationLease]:
    """Hold the migrators' lease; raises MigrationBusyError when another migrator has it for `wait_seconds`."""
    lease = MigrationLease(engine, seconds)
    lease.take(wait_seconds)
    keeper = threading.Thread(target=lease.keep, name="te-migration-lease", daemon=True)
    keeper.start()
    try:
        yield lease
    finally:
        lease.stop()
        keeper.join(10)
        lease.drop()


def _execute(connection: Connection, statement: TextClause, params: dict[str, Any]) -> CursorResult[Any]:
    for _ in range(10):
        try:
            return connection.execute(statement, params)
        except DBAPIError as error:
            if getattr(error.orig, "pgcode", None) not in _RACE:
                raise
            time.sleep(0.05)
    return connection.execute(statement, params)
