"""`flask api-keys`: the keys of clients of the API."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from app.access import api_keys
from app.access.api_keys import Scope, StoredKey
from app.cli.commands import Group
from app.cli.console import json_option, print_json
from app.cli.errors import NOT_FOUND, CommandError
from app.cli.session import actor, ready_database

group = Group("api-keys", help="The keys of the API.")

_DURATION = re.compile(r"([1-9][0-9]{0,4})([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}


def _scopes(_context: click.Context, _parameter: click.Parameter, text: str) -> list[Scope]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    try:
        return [Scope(name) for name in dict.fromkeys(names)]
    except ValueError:
        raise click.BadParameter(f"use one or more of {', '.join(Scope)}, separated by commas") from None


def _expiry(_context: click.Context, _parameter: click.Parameter, text: str | None) -> datetime | None:
    if text is None:
        return None
    if duration := _DURATION.fullmatch(text):
        return datetime.now(UTC) + timedelta(**{_UNITS[duration[2]]: int(duration[1])})
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None or instant <= datetime.now(UTC):
        raise click.BadParameter("use a duration (90d, 12h, 30m) or a future time with offset (2030-01-01T00:00:00Z)")
    return instant


@group.command("create")
@click.argument("name")
@click.option("--scopes", required=True, callback=_scopes, help="one or more of admin, jobs:write, read")
@click.option("--expires", callback=_expiry, help="90d, 12h, 30m, or a time such as 2030-01-01T00:00:00Z")
def create(name: str, scopes: list[Scope], expires: datetime | None) -> None:
    """Make a key and print it, this once: only its hash is stored.

    The key alone goes to standard output, so that KEY=$(flask --app app api-keys create ci) works.
    """
    if not scopes or not name.strip() or len(name) > 200 or not name.isprintable():
        raise click.UsageError("a name of 1 to 200 printable characters and at least one scope are needed")
    with ready_database() as database:
        key = api_keys.create(database, name, scopes, expires, by=actor())
    until = f", until {expires.isoformat(timespec='seconds')}" if expires else ""
    click.echo(f"key {name!r} with scopes {', '.join(scopes)}{until}; it is shown only now:", err=True)
    click.echo(key)


@group.command("list")
@click.argument("prefix", default="")
@json_option
def list_(prefix: str, as_json: bool) -> None:
    """List all keys, or those whose name, id or key begins with PREFIX.

    The part of a key before its second underscore is te_ and the id shown here.
    """
    with ready_database() as database:
        stored = api_keys.list_keys(database, prefix)
    if as_json:
        return print_json({"items": [_shape(key) for key in stored]})
    click.echo(f"{'ID':<17} {'STATE':<8} {'SCOPES':<22} {'LAST USED':<20} {'EXPIRES':<20} NAME")
    for key in stored:
        click.echo(
            f"{key.key_id:<17} {key.state:<8} {','.join(key.scopes):<22} {_show(key.last_used_at):<20} "
            f"{_show(key.expires_at):<20} {key.name}"
        )
    return None


@group.command("revoke")
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Refuse the key with this id from now on; running servers notice within a few seconds."""
    with ready_database() as database:
        name = api_keys.revoke(database, api_keys.id_in(key_id), by=actor())
    if name is None:
        raise CommandError(f"there is no key with the id {key_id!r}; see `flask --app app api-keys list`", NOT_FOUND)
    click.echo(f"key {name!r} ({api_keys.id_in(key_id)}) is revoked")


def _shape(key: StoredKey) -> dict[str, Any]:
    instants = {name: _show(getattr(key, name)) for name in ("last_used_at", "expires_at")}
    given = {name: None if shown == "-" else shown for name, shown in instants.items()}
    return {"key_id": key.key_id, "name": key.name, "state": key.state, "scopes": key.scopes} | given


def _show(instant: datetime | None) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if instant else "-"
