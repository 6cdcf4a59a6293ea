"""Errors of commands: one line and an exit status that scripts can tell apart, no traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
from sqlalchemy.exc import SQLAlchemyError

from app.db.retry import driver_message
from app.errors import TaskExecutorError
from schema.lease import MigrationBusyError

# 2 is click's, for a command line that makes no sense.
FAILED, NOT_FOUND, REFUSED, UNAVAILABLE = 1, 3, 4, 5
_BY_HTTP_STATUS = {404: NOT_FOUND, 409: REFUSED, 412: REFUSED}


class CommandError(click.ClickException):
    """A message for standard error, and the exit status."""

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]


@contextmanager
def one_line() -> Iterator[None]:
    """Raise the errors of the block as click's."""
    try:
        yield
    except TaskExecutorError as error:
        otherwise = UNAVAILABLE if error.retryable else FAILED
        raise CommandError(_worded(error), _BY_HTTP_STATUS.get(error.status, otherwise)) from error
    except MigrationBusyError as error:
        raise CommandError(str(error), UNAVAILABLE) from error
    except SQLAlchemyError as error:
        raise CommandError(f"the database said: {driver_message(error)}") from error


def _worded(error: TaskExecutorError) -> str:
    faults = [f"{detail['pointer']}: {detail['message']}" for detail in error.details]
    return "; ".join([error.explained, *(fault for fault in faults if fault not in error.explained)])
