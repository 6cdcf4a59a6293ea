"""Startup: a process waits for a reachable and migrated database, and warns of releases with known faults."""

import logging
import random
import re
import time
from collections.abc import Callable

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db import Database
from app.kernel.db.retries import driver_message
from app.kernel.errors import UnavailableError
from app.kernel.function_types import Stopping, never
from app.kernel.sql import statement
from schema import schema_version

log = logging.getLogger(__name__)

FACTS = statement(
    "database.facts", "SELECT version() AS version, current_setting('transaction_isolation') AS isolation"
)
# Earlier releases take too few locks for foreign keys under READ COMMITTED. All series from (25, 4) on are fixed; no
# release of an unlisted earlier series is.
_FIRST_RELEASES = {(24, 3): 20, (25, 2): 6, (25, 3): 2}
_FIRST_SERIES = (25, 4)
_WANTED = "v24.3.20, v25.2.6, v25.3.2, or v25.4 and later"
_VERSION = re.compile(r"CockroachDB\b.*?\bv(\d+)\.(\d+)\.(\d+)")


class NotReadyError(UnavailableError):
    """The database was unreachable or not migrated for the whole startup timeout, or refused the check."""


def check_ready(database: Database) -> None:
    """Raise UnavailableError unless the database is reachable and has the schema that this code needs."""
    revision = database.transact(schema_version.current)
    if revision is None or revision < schema_version.head():
        found = revision or "nothing"
        raise UnavailableError(
            f"The database is not migrated: it is at {found}, this code needs {schema_version.head()}; "
            "run `flask --app app db upgrade`."
        )


def wait_until_ready(
    database: Database,
    timeout_seconds: float,
    *,
    stopping: Stopping = never,
    check: Callable[[Database], None] = check_ready,
) -> None:
    """Wait until `check` passes, and log doubts about the server.

    Raises NotReadyError after the timeout, when `stopping` returns true, and for errors that waiting cannot resolve.
    """
    deadline = time.monotonic() + timeout_seconds
    pause = 0.1
    while True:
        try:
            check(database)
            for doubt in doubts(database):
                log.warning("unsuitable CockroachDB: %s", doubt)
            return  # noqa: TRY300 - the rest handles errors
        except UnavailableError as error:
            left = deadline - time.monotonic()
            if left <= 0 or stopping():
                raise NotReadyError(f"Gave up after {timeout_seconds:.0f} s: {error.explained}.") from error
            log.warning("waiting for the database: %s; giving up in %.0f s", error.explained, left)
            time.sleep(min(pause * random.uniform(0.8, 1.2), left))
            pause = min(pause * 2, 2.0)
        except SQLAlchemyError as error:
            raise NotReadyError(f"The database refused the check: {driver_message(error)}.") from error


def doubts(database: Database) -> list[str]:
    """Return a log line for each doubt about a CockroachDB server."""
    if not database.is_cockroach:
        return []
    version, isolation = database.transact(facts)
    return [*doubts_about_version(version), *doubts_about_isolation(isolation)]


def facts(connection: Connection) -> tuple[str, str]:
    """Read the server's version and the isolation level of this transaction."""
    row = connection.execute(FACTS).one()
    return row.version, row.isolation


def doubts_about_version(version: str) -> list[str]:
    """Return a log line if a CockroachDB release, as `version()` gives it, has known faults or is unknown."""
    found = _VERSION.match(version)
    if found is None:
        return [f"cannot read the version of CockroachDB from {version!r}; it should be {_WANTED}"]
    major, minor, patch = map(int, found.groups())
    first = _FIRST_RELEASES.get((major, minor))
    if (major, minor) >= _FIRST_SERIES or (first is not None and patch >= first):
        return []
    return [f"CockroachDB v{major}.{minor}.{patch} has known faults under READ COMMITTED; upgrade to {_WANTED}"]


def doubts_about_isolation(isolation: str) -> list[str]:
    """Return a log line if transactions run at another level than READ COMMITTED."""
    if isolation.lower() == "read committed":
        return []
    problem = f"transactions run at {isolation.upper()} instead of READ COMMITTED"
    return [f"{problem}: expect more retries; set sql.txn.read_committed_isolation.enabled for the cluster"]
