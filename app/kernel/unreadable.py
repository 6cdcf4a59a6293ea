"""Rows that cannot be read: changed manually, or written by another release. Each is skipped alone, and logged once."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

from sqlalchemy.exc import SQLAlchemyError

from app.kernel.errors import UnavailableError
from app.kernel.function_types import Title

T = TypeVar("T")
R = TypeVar("R")
log = logging.getLogger(__name__)

MAX_REPORTED = 10_000
MAX_CHARACTERS = 300  # of a line: an error may quote a whole value
_reported = set[str]()  # of this process


def readable(read: Callable[[T], R], rows: Iterable[T], name: Title[T]) -> list[R]:
    """Return the results of `read` for the rows; skip a row for which it raises. Errors of the database are raised."""
    found = []
    for row in rows:
        try:
            found.append(read(row))
        except (UnavailableError, SQLAlchemyError):
            raise
        except Exception as error:  # noqa: BLE001 - a row may hold anything
            report(name(row), error)
    return found


def report(row: str, error: Exception) -> None:
    """Log a row that cannot be read, once: most readers read it again and again."""
    line = f"{row}: {type(error).__name__}: {error}"[:MAX_CHARACTERS]
    if line not in _reported and len(_reported) < MAX_REPORTED:
        _reported.add(line)
        log.error("cannot read %s; skipping this row; repair it, or run the release that wrote it", line)
