"""Errors of commands: one line and a non-zero exit status, no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
from sqlalchemy.exc import SQLAlchemyError

from app.db.retry import driver_message
from app.errors import TaskExecutorError
from schema.lease import MigrationBusyError


@contextmanager
def one_line() -> Iterator[None]:
    """Raise the errors of the block as click's."""
    try:
        yield
    except TaskExecutorError as error:
        raise click.ClickException(error.explained) from error
    except MigrationBusyError as error:
        raise click.ClickException(str(error)) from error
    except SQLAlchemyError as error:
        raise click.ClickException(f"the database said: {driver_message(error)}") from error
