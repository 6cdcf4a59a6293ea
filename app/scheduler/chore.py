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
    """Which chores cannot reach the database: said once for all of them, not at every try of each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cut_off: set[str] = set()

    def begins(self, chore: str, reason: str) -> None:
        """Note a failed run; the first one of an outage is logged."""
        with self._lock:
            first = not self._cut_off
            self._cut_off.add(chore)
        if first:
            log.warning("%s: %s; the scheduler goes on trying", chore, reason)

    def is_over(self, chore: str) -> None:
        """Note a successful run; the end of an outage is logged once every chore has got through."""
        with self._lock:
            last = self._cut_off == {chore}
            self._cut_off.discard(chore)
        if last:
            log.warning("the database answers again")


def run_logged(chore: Chore, outage: Outage) -> None:
    """Run a chore once and say what it did; never raises, so that no chore can stop the others."""
    try:
        counts = chore.run_once()
    except UnavailableError as error:
        outage.begins(chore.name, error.message)
    except Exception:
        log.exception("%s failed", chore.name)
    else:
        outage.is_over(chore.name)
        done = {name: count for name, count in dataclasses.asdict(counts).items() if count}
        if done:
            log.info("%s: %s", chore.name, ", ".join(f"{count} {name}" for name, count in done.items()))
