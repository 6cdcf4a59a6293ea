"""The session in which revisions run: it waits for locks briefly and often, and only while it holds the lease."""

import itertools
import logging
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event, text

log = logging.getLogger(__name__)

# ALTER TABLE queues behind whoever reads the table, and every claim queues behind ALTER TABLE: so it gives its place up
# again, well before a claim has waited for a second, and comes back later.
LOCK_TIMEOUT_MS = 500
LOCK_PATIENCE_SECONDS = 600.0
_UNDONE = {"55P03", "40P01", "40001"}  # lock timeout, deadlock, serialization failure


@contextmanager
def opened(engine: Engine, check: Callable[[], None]) -> Iterator[Connection]:
    """Open a connection each of whose statements runs `check` first, and is repeated while others hold its locks.

    A statement that gets no lock for ten minutes raises the database's error. `engine` is in autocommit: what timed out
    leaves no transaction behind.
    """
    with engine.connect() as connection:
        # An index takes as long as it takes, whatever an administrator has set for this user.
        connection.execute(text("SET statement_timeout = 0"))
        connection.execute(text(f"SET lock_timeout = {LOCK_TIMEOUT_MS}"))

        @event.listens_for(engine, "do_execute")
        def run(cursor: Any, statement: str, parameters: Any, _context: Any) -> bool:
            _repeat(lambda: cursor.execute(statement, parameters), check, engine.dialect.loaded_dbapi.Error)
            return True

        yield connection


def _repeat(run: Callable[[], None], check: Callable[[], None], driver_error: type[Exception]) -> None:
    first_failed_at = None
    for tries in itertools.count():
        check()
        try:
            run()
        except driver_error as error:
            first_failed_at = first_failed_at or time.monotonic()
            is_over = time.monotonic() > first_failed_at + LOCK_PATIENCE_SECONDS
            if is_over or getattr(error, "pgcode", None) not in _UNDONE:
                raise
            log.warning("trying a step of the migration again: %s", str(error).partition("\n")[0])
        else:
            return
        # Longer than the lock timeout, so that what queued behind it goes on meanwhile.
        time.sleep(min(LOCK_TIMEOUT_MS / 1000 * 2**tries, 10.0) * random.uniform(1.0, 1.5))
