"""Exit statuses and error lines of commands."""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click
from sqlalchemy.exc import SQLAlchemyError

from app.cli.console import plain
from app.kernel.db.retries import driver_message
from app.kernel.errors import TaskExecutorError
from schema.lease import MigrationBusyError
from schema.migrate import UnreleasedSchemaError

# 2 is click's status for an invalid command line.
FAILED, MEANINGLESS, NOT_FOUND, REFUSED, UNAVAILABLE = 1, 2, 3, 4, 5
_BY_HTTP_STATUS = {404: NOT_FOUND, 409: REFUSED, 412: REFUSED}


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
    text = error.explained
    new = [each for each in error.details if each["pointer"] not in text or each["message"] not in text]
    return "; ".join([text, *(f"{each['pointer']}: {each['message']}" for each in new)])
