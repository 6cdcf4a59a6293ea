"""`flask console`: one-time links to the console."""

import sys
from urllib.parse import urlsplit

import click

from app.cli.commands import CommandError, ServiceGroup, ready_database
from app.cli.console import json_option, print_result
from app.kernel.access import console_sessions
from app.kernel.access.console_sessions import LINK_SECONDS
from app.kernel.access.key_ring import KeyRing
from app.kernel.errors import UnauthorizedError

MAX_KEY_BYTES = 1024

group = ServiceGroup("console", help="Sign-in to the console.")


def _address(_context: click.Context, _parameter: click.Parameter, url: str) -> str:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
        is_address = parts.scheme in {"http", "https"} and has_host and not {"?", "#"} & {*url}
    except ValueError:  # a bracket without its pair, or a port out of range
        is_address = False
    if not is_address:
        raise click.BadParameter("use http:// or https:// and a host, without a query and a fragment")
    return url


def _presented() -> str:
    """Return the first line of standard input; bytes of another encoding make an invalid key."""
    return sys.stdin.buffer.readline(MAX_KEY_BYTES).decode("ascii", "replace").strip()


@group.command("link")
@click.option("--url", default="http://127.0.0.1:8080", show_default=True, callback=_address, help="address of the API")
@json_option
def link(url: str, as_json: bool) -> None:
    """Print a link that signs in to the console, once and within a minute, for the API key on standard input."""
    presented = _presented()
    with ready_database() as database:
        try:
            key = KeyRing(database).verify(presented)
        except UnauthorizedError as error:
            raise CommandError(f"{error.explained}; standard input must have one valid key") from None
        address = console_sessions.link_to(url, console_sessions.new_link(database, key.key_id))
    print_result({"link": address, "seconds": LINK_SECONDS}, address, as_json=as_json)
