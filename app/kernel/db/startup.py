"""Readiness of the database: a starting process waits for it with backoff, logs that, and gives up in the end."""

import logging
import random
import time
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db import Database
from app.kernel.db.engine_doubts import doubts
from app.kernel.db.retries import driver_message
from app.kernel.errors import UnavailableError
from app.kernel.function_types import Stopping, never
from schema import schema_version

log = logging.getLogger(__name__)


class NotReadyError(UnavailableError):
    """The database was unreachable or not migrated for the whole startup timeout, or refused the check."""


def check_ready(database: Database) -> None:
    """Raise UnavailableError unless the database can be reached and has the schema this code needs."""
    revision = database.transact(schema_version.current)
    if revision is None or revision < schema_version.head():
        found = revision or "nothing"
        raise UnavailableError(
            f"the database is not migrated: it is at {found}, this code needs {schema_version.head()}; "
            "run `flask --app app db upgrade`"
        )


def wait_until_ready(
    database: Database,
    timeout_seconds: float,
    *,
    stopping: Stopping = never,
    check: Callable[[Database], None] = check_ready,
) -> None:
    """Wait until `check` passes, and log what there is to say about the server.

    Raises NotReadyError after the timeout, once `stopping` returns true, and at once where waiting cannot help.
    """
    deadline = time.monotonic() + timeout_seconds
    pause = 0.1
    while True:
        try:
            check(database)
            for doubt in doubts(database):
                log.warning("%s", doubt)
            return  # noqa: TRY300 - what follows handles errors
        except UnavailableError as error:
            left = deadline - time.monotonic()
            if left <= 0 or stopping():
                raise NotReadyError(f"gave up after {timeout_seconds:.0f} s: {error.explained}") from error
            log.warning("waiting for the database: %s (giving up in %.0f s)", error.explained, left)
            time.sleep(min(pause * random.uniform(0.8, 1.2), left))
            pause = min(pause * 2, 2.0)
        except SQLAlchemyError as error:
            raise NotReadyError(f"the database said: {driver_message(error)}") from error
