"""Errors of commands: one line and a non-zero exit status, no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click
from flask.cli import NoAppException
from sqlalchemy.exc import SQLAlchemyError

from app.db import reason
from app.errors import TaskExecutorError
from schema.migrate import MigrationBusyError


class NoApplicationError(NoAppException):
    """No application can be built from the settings: one line, also above the list of commands of `--help`."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message without Flask's words on usage: the command line was right."""
        click.ClickException.show(self, file)


@contextmanager
def one_line() -> Iterator[None]:
    """Turn what can go wrong into click's way of saying so."""
    try:
        yield
    except TaskExecutorError as error:
        raise click.ClickException(error.explained) from error
    except MigrationBusyError as error:
        raise click.ClickException(str(error)) from error
    except SQLAlchemyError as error:
        raise click.ClickException(f"the database said: {reason(error)}") from error
