"""Commands and groups whose errors become one line and an exit status instead of a traceback."""

import sys
from functools import partial
from io import TextIOWrapper
from typing import Any

import click
from flask.cli import AppGroup

from app.cli.exit_statuses import one_line


class ServiceCommand(click.Command):
    """Command with the product's error handling."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; characters that the output cannot encode become escape sequences."""
        for stream in (sys.stdout, sys.stderr):
            # None if the caller has closed the stream.
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        with one_line():
            return super().invoke(ctx)


class ServiceGroup(AppGroup):
    command_class = ServiceCommand


class Listing(ServiceCommand, ServiceGroup):
    """Group that lists its subject when it is called without a subcommand."""


command = partial(click.command, cls=ServiceCommand)
listing = partial(click.group, cls=Listing, invoke_without_command=True)
