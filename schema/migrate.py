"""Migration of a database to the newest schema, safe from several processes at once and while jobs flow."""

import os
from collections.abc import Sequence
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import NullPool

from schema import functions, lease, session
from schema.schema_version import VERSIONS, UnreleasedSchemaError, current, head
from schema.url import database_url

LEASE_SECONDS = 60
WAIT_SECONDS = 180
# A connection may wait for an index for an hour, and routers drop idle connections.
_SOCKET_OPTIONS = {"connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}


def upgrade(
    url: str,
    *,
    wait_seconds: float = WAIT_SECONDS,
    lease_seconds: float = LEASE_SECONDS,
    versions: Path = VERSIONS,
    folders: Sequence[Path] = (),
) -> str:
    """Migrate the database to the newest revision and return its name; a newer revision stays.

    Raises UnreleasedSchemaError, and lease.MigrationBusyError when another migrator holds the lease for `wait_seconds`
    or took it over. `versions` holds the revisions of this package, whose baseline creates the tables of the newest
    revision. `folders` hold further revisions, which follow them.
    """
    newest, config = head(folders, versions=versions), _config([versions, *folders])
    with (
        lease.held(_engine(url), seconds=lease_seconds, wait_seconds=wait_seconds) as mine,
        session.opened(_engine(url), mine) as connection,
    ):
        found = current(connection)
        if found is not None and found > newest:
            return found  # migrated by a newer release that was rolled back: processes start on the newer schema
        baseline = str(ScriptDirectory.from_config(config).get_base())
        if found is not None and found < baseline:
            raise UnreleasedSchemaError(
                f"the database is at revision {found}, which an unreleased version made; create an empty database and "
                "migrate that"
            )
        config.attributes["connection"] = connection
        if found is None:
            # The baseline creates the newest tables. Later revisions would find nothing to change.
            command.upgrade(config, baseline)
            command.stamp(config, head(versions=versions))
        command.upgrade(config, "head")
        functions.install(connection)
        return newest


def _engine(url: str) -> Engine:
    return create_engine(
        database_url(url),
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args=_SOCKET_OPTIONS | {"application_name": "te-migrate"},
    )


def _config(folders: Sequence[Path]) -> Config:
    config = Config()
    config.set_main_option("script_location", str(VERSIONS.parent))
    config.set_main_option("path_separator", "os")
    config.set_main_option("version_locations", os.pathsep.join(map(str, folders)))
    return config
