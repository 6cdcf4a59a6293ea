"""Commands: their groups, session and exit statuses; an error becomes one line instead of a traceback."""

import errno
import getpass
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from typing import Any

import click
from flask.cli import AppGroup
from sqlalchemy.exc import SQLAlchemyError

from app.catalog.endpoints import versions
from app.cli.console import plain
from app.kernel.audit import Actor
from app.kernel.db import Database, startup
from app.kernel.db.retries import driver_message
from app.kernel.errors import EndpointNotFoundError, TaskExecutorError
from app.kernel.suggestions import did_you_mean
from app.web.services import services
from schema.lease import MigrationBusyError
from schema.schema_version import UnreleasedSchemaError

# 2 is click's status for an invalid command line.
FAILED, MEANINGLESS, NOT_FOUND, REFUSED, UNAVAILABLE = 1, 2, 3, 4, 5
_BY_HTTP_STATUS = {404: NOT_FOUND, 409: REFUSED, 412: REFUSED}

_MAX_SUMMARY = 1000  # characters

yes_option = click.option("--yes", is_flag=True, help="do not ask")


class CommandError(click.ClickException):
    """Message for standard error with an exit status."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        # The message may quote stored values or files.
        super().__init__(plain(message))
        self.exit_code = exit_code  # type: ignore[misc]


@contextmanager
def one_line() -> Iterator[None]:
    """Convert errors of the block to click's."""
    try:
        yield
    except TaskExecutorError as error:
        otherwise = UNAVAILABLE if error.retryable else FAILED
        raise CommandError(_worded(error), _BY_HTTP_STATUS.get(error.status, otherwise)) from error
    except MigrationBusyError as error:
        raise CommandError(str(error), UNAVAILABLE) from error
    except UnreleasedSchemaError as error:
        raise CommandError(str(error), REFUSED) from error
    except SQLAlchemyError as error:
        raise CommandError(f"database error: {driver_message(error)}") from error
    except UnicodeEncodeError as error:
        raise CommandError("the command line is not UTF-8", MEANINGLESS) from error
    except OSError as error:
        # click handles a closed pipe quietly.
        if error.errno == errno.EPIPE:
            raise
        if error.filename is None:
            _abandon_output()
        raise CommandError(f"{error.filename or 'the output'}: {error.strerror or error}") from error


def _abandon_output() -> None:
    """Redirect standard output to /dev/null, so that Python's final flush does not fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _worded(error: TaskExecutorError) -> str:
    text = error.explained + (_similar(error.name) if isinstance(error, EndpointNotFoundError) else "")
    faults = [f"{each['pointer']}: {each['message'].removesuffix('.')}" for each in error.details]
    return "; ".join([text, *(fault for fault in faults if f" {fault}" not in f" {text}")])


def _similar(name: str) -> str:
    with suppress(TaskExecutorError, SQLAlchemyError):
        if near := did_you_mean(name, versions.similar_names(services().database, name)):
            return f".{near}"
    return "; `flask --app app catalog export` lists the endpoints"


class WholeSummary(click.Command):
    """Command with its whole summary in the list of its group; click cuts a summary that needs a second line."""

    def get_short_help_str(self, limit: int = 45) -> str:  # noqa: ARG002 - click's interface
        """Return the first sentence of the help."""
        return super().get_short_help_str(_MAX_SUMMARY)


class ServiceCommand(WholeSummary):
    """Command with the product's error handling."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; characters that the output cannot encode become escape sequences."""
        for stream in (sys.stdout, sys.stderr):
            # None if the caller has closed the stream.
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        with one_line():
            return super().invoke(ctx)


class ServiceGroup(WholeSummary, AppGroup):
    command_class = ServiceCommand


class Listing(ServiceCommand, ServiceGroup):
    """Group that lists its subject when it is called without a subcommand."""


command = partial(click.command, cls=ServiceCommand)
listing = partial(click.group, cls=Listing, invoke_without_command=True)


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
        raise click.UsageError(f"{question} add --yes to confirm: standard input is not a terminal")
    click.confirm(question, abort=True, err=True)
