"""`flask grants`: the endpoints for which roles of the database create jobs by te_enqueue."""

from dataclasses import asdict

import click

from app.cli.commands import NOT_FOUND, REFUSED, CommandError, ServiceGroup, actor, confirm, ready_database, yes_option
from app.cli.console import json_option, print_json, print_result, show_table
from app.kernel.access import enqueue_grants
from app.kernel.access.enqueue_grants import EnqueueGrant, LastGrantError
from app.kernel.db import Database
from app.kernel.suggestions import did_you_mean
from schema.job_bounds import NAME_PATTERN

group = ServiceGroup("grants", help="Endpoints for which roles of the database create jobs by te_enqueue.")


def _pattern(_context: click.Context, _parameter: click.Parameter, text: str) -> str:
    if not NAME_PATTERN.fullmatch(text):
        raise click.BadParameter(
            "use up to 128 lower-case letters, digits, hyphens, underscores, * and ?, such as mail-*"
        )
    return text


@group.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List the grants. Without any, each role that may execute te_enqueue creates jobs of every endpoint."""
    with ready_database() as database:
        found = enqueue_grants.list_grants(database)
    if as_json:
        return print_json({"items": [asdict(grant) for grant in found]})
    return show_table(("ROLE", "PATTERN"), [(grant.role_name, grant.pattern) for grant in found])


@group.command("add")
@click.argument("role")
@click.argument("pattern", callback=_pattern)
@yes_option
@json_option
def add(role: str, pattern: str, yes: bool, as_json: bool) -> None:
    """Let a role create jobs of the endpoints that match a pattern (`*`, `?`), at once.

    The first grant asks: from then on, roles without a grant create no jobs. A grant of a group holds for its members.
    Exits with 3 if there is no such role.
    """
    with ready_database() as database:
        _check_role(database, role)
        if not enqueue_grants.list_grants(database):
            confirm(f"Add the first grant? te_enqueue then refuses all roles but {role!r} and the owner.", yes=yes)
        is_new = enqueue_grants.add(database, EnqueueGrant(role, pattern), by=actor())
    said = f"granted {pattern} to {role}" if is_new else f"{pattern} was granted to {role} before"
    print_result({"role_name": role, "pattern": pattern, "is_new": is_new}, said, as_json=as_json)


@group.command("remove")
@click.argument("role")
@click.argument("pattern")
@yes_option
@json_option
def remove(role: str, pattern: str, yes: bool, as_json: bool) -> None:
    """Remove a grant, at once. Exits with 3 if there is no such grant.

    Removing the last grant opens te_enqueue to each role that may execute it; the answer says so (`is_open`).
    """
    grant = EnqueueGrant(role, pattern)
    with ready_database() as database:
        while not _is_removed(database, grant, yes=yes):
            pass  # it has become the last one meanwhile, so the question is another one
        is_open = not enqueue_grants.list_grants(database)
    effect = ", and te_enqueue is open to all with EXECUTE" if is_open else ""
    said = f"{pattern} is no longer granted to {role}{effect}"
    print_result({**asdict(grant), "is_open": is_open}, said, as_json=as_json)


def _is_removed(database: Database, grant: EnqueueGrant, *, yes: bool) -> bool:
    """Ask and remove; returns false if the grant has become the last one since the question."""
    found = enqueue_grants.list_grants(database)
    if grant not in found:
        raise _absent(grant)
    is_last = found == [grant]
    effect = "; each role with EXECUTE on te_enqueue then creates jobs of every endpoint" if is_last else ""
    confirm(f"Remove the grant {grant.pattern!r} of {grant.role_name!r}{effect}?", yes=yes)
    try:
        if not enqueue_grants.remove(database, grant, by=actor(), may_be_last=is_last or yes):
            raise _absent(grant)
    except LastGrantError:
        return False
    return True


def _check_role(database: Database, role: str) -> None:
    if database.is_cockroach:
        raise CommandError("grants are for te_enqueue, which CockroachDB lacks", REFUSED)
    roles = enqueue_grants.role_names(database)
    if role not in roles:
        near = did_you_mean(role, roles)
        raise CommandError(f"the database has no role {role!r}; create it first.{near or ''}", NOT_FOUND)


def _absent(grant: EnqueueGrant) -> CommandError:
    message = f"{grant.role_name!r} has no grant {grant.pattern!r}; see `flask --app app grants list`"
    return CommandError(message, NOT_FOUND)
