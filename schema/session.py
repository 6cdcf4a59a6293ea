"""Session of the revisions: it waits for locks briefly and often, and only while it holds the lease."""

import itertools
import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event, text

from schema.lease import MigrationLease

log = logging.getLogger(__name__)

# ALTER TABLE queues behind all readers of the table, and every claim queues behind ALTER TABLE. So ALTER TABLE gives up
# well before a claim has waited for a second, and is retried later.
LOCK_TIMEOUT_MS = 500
LOCK_PATIENCE_SECONDS = 600.0
_UNDONE = {"55P03", "40P01", "40001"}  # lock timeout, deadlock, serialization failure


@contextmanager
def opened(engine: Engine, lease: MigrationLease) -> Iterator[Connection]:
    """Open a connection that checks the lease before each statement, and repeats a statement that got no lock.

    A statement that gets no lock for ten minutes raises the database's error. `engine` is in autocommit, so a statement
    that timed out leaves no transaction behind.
    """
    with engine.connect() as connection:
        # Building an index may exceed any timeout that an administrator has set for this user.
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text(f"SET lock_timeout = {LOCK_TIMEOUT_MS}"))

        @event.listens_for(engine, "do_execute")
        def run(cursor: Any, statement: str, parameters: Any, _context: Any) -> bool:
            first_failed_at = None
            for tries in itertools.count():
                lease.check()
                try:
                    cursor.execute(statement, parameters)
                except engine.dialect.loaded_dbapi.Error as error:
                    first_failed_at = first_failed_at or time.monotonic()
                    is_over = time.monotonic() > first_failed_at + LOCK_PATIENCE_SECONDS
                    if is_over or getattr(error, "pgcode", None) not in _UNDONE:
                        raise
                    log.warning("migration step failed, retrying: %s", str(error).partition("\n")[0])
                else:
                    break
                # Longer than the lock timeout, so that queued statements run first.
                time.sleep(min(LOCK_TIMEOUT_MS / 1000 * 2**tries, 10.0) * random.uniform(1.0, 1.5))
            return True

        yield connection
