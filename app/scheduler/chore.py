"""A chore: something done over and over, whose failure is its own."""

import dataclasses
import logging
import threading
from collections.abc import Callable
from typing import ClassVar, Protocol

from app.errors import UnavailableError

log = logging.getLogger(__name__)

Hint = Callable[[str], None]
"""Takes the name of a queue in which something became claimable; may be lost."""

Stopping = Callable[[], bool]
"""Tells a chore to end between two statements."""


class Counts(Protocol):
    """What a run did: a dataclass of numbers."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[int]]]


class Chore(Protocol):
    """Works until nothing is left to do, a batch at a time."""

    name: str

    def run_once(self) -> Counts:
        """Do what is due; raises UnavailableError while the database is away."""


class Outage:
    """Whether the database is away, as all chores of the process see it: said once, not at every try of each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._away = False
        self._ended = 0
        self._failing: set[str] = set()

    def count(self) -> int:
        """Count the outages that are over; a run remembers it to know whether its failure is old news."""
        return self._ended

    def begins(self, chore: str, reason: str, *, ended_before: int) -> None:
        """Note a failed run; the first of an outage is logged."""
        with self._lock:
            # A chore that failed the last time too, while others work, has a trouble of its own: that was said.
            news = chore not in self._failing and self._ended == ended_before
            self._failing.add(chore)
            first, self._away = news and not self._away, self._away or news
        if first:
            log.warning("%s: %s; the scheduler goes on trying", chore, reason)

    def is_over(self, chore: str) -> None:
        """Note a successful run; the first after an outage is logged."""
        with self._lock:
            self._failing.discard(chore)
            last, self._away = self._away, False
            self._ended += last
        if last:
            log.warning("the database answers again")


def run_logged(chore: Chore, outage: Outage) -> None:
    """Run a chore once and say what it did; never raises, so that no chore can stop the others."""
    ended_before = outage.count()
    try:
        counts = chore.run_once()
    except UnavailableError as error:
        outage.begins(chore.name, error.explained, ended_before=ended_before)
    except Exception:
        log.exception("%s failed", chore.name)
    else:
        outage.is_over(chore.name)
        done = {name: count for name, count in dataclasses.asdict(counts).items() if count}
        if done:
            log.info("%s: %s", chore.name, ", ".join(f"{count} {name}" for name, count in done.items()))
