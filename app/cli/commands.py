"""Commands and groups: whatever goes wrong in one ends it with one line and an exit status, without a traceback."""

import sys
from functools import partial
from io import TextIOWrapper
from typing import Any

import click
from flask.cli import AppGroup

from app.cli.exit_statuses import one_line


class Command(click.Command):
    """A command of ours."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run it. What the terminal or file has no letter for is written as an escape sequence."""
        for stream in (sys.stdout, sys.stderr):
            # None where the caller has closed it.
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        with one_line():
            return super().invoke(ctx)


class Group(AppGroup):
    """A group of them."""

    command_class = Command


class Listing(Command, Group):
    """A group that is a command by itself: without one of its members it lists what they are about."""


command = partial(click.command, cls=Command)
listing = partial(click.group, cls=Listing, invoke_without_command=True)
