"""`flask api-keys`: API keys of clients."""

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from app.cli.commands import NOT_FOUND, CommandError, ServiceGroup, actor, confirm, ready_database, yes_option
from app.cli.console import json_option, print_json, print_result, show_table
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope, StoredKey, scope_of
from app.kernel.formats import duration_ms

group = ServiceGroup("api-keys", help="API keys of clients.")


def _scopes(_context: click.Context, _parameter: click.Parameter, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    try:
        return [scope_of(name) for name in dict.fromkeys(names)]
    except ValueError:
        raise click.BadParameter(
            f"use one or more of {', '.join(Scope)}, jobs:write:PATTERN of endpoints such as jobs:write:mail-*, or "
            "actors:work:PATTERN of Dramatiq queues such as actors:work:mail-*, separated by commas"
        ) from None


def _expiry(_context: click.Context, _parameter: click.Parameter, text: str | None) -> datetime | None:
    if text is None:
        return None
    milliseconds, now = duration_ms(text), datetime.now(UTC)
    try:
        instant = datetime.fromisoformat(text) if milliseconds is None else now + timedelta(milliseconds=milliseconds)
    except (ValueError, OverflowError):
        instant = None
    if instant is None or instant.tzinfo is None or instant <= now:
        raise click.BadParameter("use a duration (90d, 12h, 30m) or a future time with offset (2030-01-01T00:00:00Z)")
    return instant


@group.command("create")
@click.argument("name")
@click.option(
    "--scopes",
    required=True,
    callback=_scopes,
    help="one or more of actors:work, actors:work:PATTERN, admin, jobs:send, jobs:write, jobs:write:PATTERN, read",
)
@click.option("--expires", callback=_expiry, help="90d, 12h, 30m, or a time such as 2030-01-01T00:00:00Z")
@json_option
def create(name: str, scopes: list[str], expires: datetime | None, as_json: bool) -> None:
    """Create a key and print it. It cannot be shown again: only its hash is stored.

    Standard output has only the key, so that KEY=$(flask --app app api-keys create ci) works.
    """
    if not scopes or not name.strip() or len(name) > 200 or not name.isprintable():
        raise click.UsageError("use a name of 1 to 200 printable characters and at least one scope")
    with ready_database() as database:
        key = api_keys.create(database, name, scopes, expires, by=actor())
    if as_json:
        return print_json({"key": key, "name": name, "scopes": scopes, "expires_at": _instant(expires)})
    until = f", until {expires.isoformat(timespec='seconds')}" if expires else ""
    click.echo(f"key {name!r} with scopes {', '.join(scopes)}{until}; it is shown only now:", err=True)
    click.echo(key)
    return None


@group.command("list")
@click.argument("prefix", default="")
@json_option
def list_(prefix: str, as_json: bool) -> None:
    """List all keys, or the keys whose name, id or text begins with PREFIX.

    The text of a key begins with te_, the listed id and an underscore.
    """
    with ready_database() as database:
        stored = api_keys.list_keys(database, prefix)
    if as_json:
        return print_json({"items": [_shape(key) for key in stored]})
    rows = [
        (key.key_id, key.state, ",".join(key.scopes), _instant(key.last_used_at), _instant(key.expires_at), key.name)
        for key in stored
    ]
    show_table(("ID", "STATE", "SCOPES", "LAST USED", "EXPIRES", "NAME"), rows)
    return None


@group.command("revoke")
@click.argument("key_id")
@yes_option
@json_option
def revoke(key_id: str, yes: bool, as_json: bool) -> None:
    """Revoke the key with this id; running servers refuse it within a few seconds."""
    with ready_database() as database:
        wanted = api_keys.id_in(key_id)
        name = next((key.name for key in api_keys.list_keys(database, wanted) if key.key_id == wanted), None)
        if name is None:
            raise CommandError(f"no key has the id {wanted!r}; see `flask --app app api-keys list`", NOT_FOUND)
        confirm(f"Revoke the key {name!r} ({wanted}) for good?", yes=yes)
        api_keys.revoke(database, wanted, by=actor())
    print_result({"key_id": wanted, "name": name}, f"key {name!r} ({wanted}) is revoked", as_json=as_json)


def _shape(key: StoredKey) -> dict[str, Any]:
    shaped = {"key_id": key.key_id, "name": key.name, "state": key.state, "scopes": key.scopes}
    return shaped | {"last_used_at": _instant(key.last_used_at), "expires_at": _instant(key.expires_at)}


def _instant(instant: datetime | None) -> str | None:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if instant else None
