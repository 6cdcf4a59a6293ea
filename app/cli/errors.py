"""Errors of commands: one line and a non-zero exit status, no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
from sqlalchemy.exc import SQLAlchemyError

from app.errors import TaskExecutorError
from schema.migrate import MigrationBusyError


@contextmanager
def one_line() -> Iterator[None]:
    """Turn what can go wrong into click's way of saying so."""
    try:
        yield
    except TaskExecutorError as error:
        raise click.ClickException(error.message) from error
    except MigrationBusyError as error:
        raise click.ClickException(str(error)) from error
    except SQLAlchemyError as error:
        # Only the driver's own first line: SQLAlchemy's text would add the statement and its parameters.
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise click.ClickException(f"the database said: {reason}") from error
