"""Findings: what is wrong, and what puts it right."""

from collections.abc import Callable
from dataclasses import dataclass

from app.kernel.db import Database
from app.web.services import Services

MOST = 1_000  # that are counted of one kind


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong, and the fix in words; `repair` makes it where that is safe, and returns how many.

    After one that `ends` the examination, other checks would only fail.
    """

    check: str
    problem: str
    fix: str
    repair: Callable[[], int] | None = None
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Patient:
    """What is looked at."""

    services: Services

    @property
    def database(self) -> Database:
        """Return the database."""
        return self.services.database

    @property
    def shards(self) -> range:
        """Return the shards of each queue."""
        return range(self.services.shards)


def counted(number: int, noun: str) -> str:
    """Write a count that ends at MOST."""
    return f"{number}{' or more' if number >= MOST else ''} {noun}"
