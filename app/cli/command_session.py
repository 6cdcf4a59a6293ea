"""Session of a command: the migrated database, the actor for the audit log, and confirmation."""

import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from app.cli.console import plain
from app.cli.exit_statuses import one_line
from app.kernel.audit import Actor
from app.kernel.db import Database, startup
from app.web.services import services

yes_option = click.option("--yes", is_flag=True, help="do not ask")


@contextmanager
def ready_database() -> Iterator[Database]:
    """Yield the migrated database; raises errors of the block as click's."""
    with one_line():
        startup.check_ready(services().database)
        yield services().database


def actor() -> Actor:
    """Return the operating system's user for the audit log; a container's user may lack a name."""
    try:
        return Actor(f"cli:{getpass.getuser()}")
    except (KeyError, OSError):
        return Actor(f"cli:uid-{os.getuid()}")


def confirm(question: str, *, yes: bool) -> None:
    """Ask before a destructive change, unless `--yes` is given; raises click's Abort after a no."""
    if yes:
        return
    question = plain(question)
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Standard input is not a terminal: add --yes to confirm.")
    click.confirm(question, abort=True, err=True)
