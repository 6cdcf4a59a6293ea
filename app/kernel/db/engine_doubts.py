"""Doubts about the database server: a release with known faults, or an isolation level that nobody asked for."""

import re

from sqlalchemy import Connection

from app.kernel.db import Database
from app.kernel.sql import statement

FACTS = statement(
    "database.facts", "SELECT version() AS version, current_setting('transaction_isolation') AS isolation"
)

# Earlier ones take too few locks for foreign keys under READ COMMITTED. From (25, 4) on all are fine; of a series that
# is not listed no release is.
_FIRST_RELEASES = {(24, 3): 20, (25, 2): 6, (25, 3): 2}
_FIRST_SERIES = (25, 4)
_WANTED = "v24.3.20, v25.2.6, v25.3.2, or v25.4 and later"
_VERSION = re.compile(r"CockroachDB\b.*?\bv(\d+)\.(\d+)\.(\d+)")


def doubts(database: Database) -> list[str]:
    """Return a sentence for each doubt about the server; PostgreSQL gives no cause for any."""
    if not database.is_cockroach:
        return []
    version, isolation = database.transact(facts)
    return [*doubts_about_version(version), *doubts_about_isolation(isolation)]


def facts(connection: Connection) -> tuple[str, str]:
    """Ask a server for its version and for the isolation level of this transaction."""
    row = connection.execute(FACTS).one()
    return row.version, row.isolation


def doubts_about_version(version: str) -> list[str]:
    """Return a sentence when a CockroachDB release, as `version()` says it, has known faults or is unknown."""
    found = _VERSION.search(version)
    if found is None:
        return [f"the version of CockroachDB cannot be read from {version!r}; it should be {_WANTED}"]
    major, minor, patch = map(int, found.groups())
    first = _FIRST_RELEASES.get((major, minor))
    if (major, minor) >= _FIRST_SERIES or (first is not None and patch >= first):
        return []
    return [f"CockroachDB v{major}.{minor}.{patch} has known faults under READ COMMITTED; upgrade to {_WANTED}"]


def doubts_about_isolation(isolation: str) -> list[str]:
    """Return a sentence when transactions run at another level than READ COMMITTED."""
    if isolation.lower() == "read committed":
        return []
    run_at = f"transactions run at {isolation.upper()} although READ COMMITTED was asked for"
    return [f"{run_at}: expect more repeated ones; see the cluster setting sql.txn.read_committed_isolation.enabled"]
