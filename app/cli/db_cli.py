"""`flask db`: schema of the database."""

from app.cli.commands import ServiceGroup
from app.cli.console import json_option, print_result, progress
from app.kernel.db import Database, startup
from app.web.services import services
from schema import schema_version

group = ServiceGroup("db", help="Schema of the database.")


@group.command("upgrade")
@json_option
def upgrade(as_json: bool) -> None:
    """Migrate the database to the newest schema, waiting until it is reachable. Safe to repeat."""
    from schema import migrate  # noqa: PLC0415 - no other command needs Alembic

    settings, database = services().settings, services().database
    with progress("migrating"):
        startup.wait_until_ready(database, settings.startup_timeout_seconds, check=_reach)
        revision = migrate.upgrade(settings.database_url)
    newest = schema_version.head()
    newer = f", which is newer than this code ({newest})" if revision > newest else ""
    line = f"the database is at revision {revision}{newer}"
    print_result({"revision": revision, "newest": newest}, line, as_json=as_json)


@group.command("current")
@json_option
def current(as_json: bool) -> None:
    """Show the revision of the database and the newest revision."""
    revision = services().database.transact(schema_version.current)
    newest = schema_version.head()
    line = f"{revision or 'not migrated'} (newest: {newest})"
    print_result({"revision": revision, "newest": newest}, line, as_json=as_json)


def _reach(database: Database) -> None:
    database.transact(schema_version.current)
