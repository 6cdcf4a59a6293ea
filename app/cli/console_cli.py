"""`flask console`: one-time links to the console."""

import sys

import click

from app.cli.commands import CommandError, ServiceGroup, ready_database
from app.cli.console import json_option, print_result
from app.kernel.access import console_sessions
from app.kernel.access.console_sessions import LINK_SECONDS
from app.kernel.access.key_ring import KeyRing
from app.kernel.errors import UnauthorizedError

group = ServiceGroup("console", help="Sign-in to the console.")


@group.command("link")
@click.option("--url", default="http://127.0.0.1:8080", show_default=True, help="address of the API")
@json_option
def link(url: str, as_json: bool) -> None:
    """Print a link that signs in to the console, once and within a minute, for the API key on standard input."""
    presented = sys.stdin.readline().strip()
    with ready_database() as database:
        try:
            key = KeyRing(database).verify(presented)
        except UnauthorizedError as error:
            raise CommandError(f"{error.explained}; standard input must have one valid key") from None
        address = console_sessions.link_to(url, console_sessions.new_link(database, key.key_id))
    print_result({"link": address, "seconds": LINK_SECONDS}, address, as_json=as_json)
