"""`flask db`: schema of the database."""

import click

from app.cli.commands import ServiceGroup
from app.cli.console import json_option, print_json, progress
from app.kernel.db import Database, startup
from app.web.services import services
from schema import migrate, schema_version

group = ServiceGroup("db", help="Schema of the database.")


@group.command("upgrade")
@json_option
def upgrade(as_json: bool) -> None:
    """Migrate the database to the newest schema, waiting until it is reachable. Safe to repeat."""
    settings, database = services().settings, services().database
    with progress("migrating"):
        startup.wait_until_ready(database, settings.startup_timeout_seconds, check=_reach)
        revision = migrate.upgrade(settings.database_url)
    if as_json:
        return print_json({"revision": revision, "newest": schema_version.head()})
    newer = f", which is newer than this code ({schema_version.head()})" if revision > schema_version.head() else ""
    click.echo(f"the database is at revision {revision}{newer}")
    return None


@group.command("current")
@json_option
def current(as_json: bool) -> None:
    """Show the revision of the database and the newest revision."""
    revision = services().database.transact(schema_version.current)
    if as_json:
        return print_json({"revision": revision, "newest": schema_version.head()})
    click.echo(f"{revision or 'not migrated'} (newest: {schema_version.head()})")
    return None


def _reach(database: Database) -> None:
    database.transact(schema_version.current)
