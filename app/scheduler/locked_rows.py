"""Locked rows: log of rows that a chore skips because another transaction holds their locks."""

import logging
import time
from collections.abc import Set
from typing import NamedTuple

log = logging.getLogger(__name__)

SILENT_SECONDS = 60.0  # between two warnings about a row
MAX_NAMED = 10  # rows in SILENT_SECONDS


class LockedRow(NamedTuple):
    """Row, such as "job job_1", and its state while it was locked."""

    name: str
    state: object = None


class LockedRows:
    """Rows that the last run of a chore skipped; `consequence` completes the warning about a row.

    Another scheduler locks a row only for a moment, and changes the row. A warning therefore names a row only after
    two runs in succession have found the row locked in the same state.
    """

    def __init__(self, consequence: str, *, silent_seconds: float = SILENT_SECONDS) -> None:
        self._silent_seconds = silent_seconds
        self._consequence = consequence
        self._last_run: Set[LockedRow] = frozenset()
        self._silent_until: dict[str, float] = {}

    def note(self, found: Set[LockedRow]) -> None:
        """Take the rows that a whole run has skipped, and log the first rows with a long lock."""
        now = time.monotonic()
        self._silent_until = {name: until for name, until in self._silent_until.items() if until > now}
        names = {row.name for row in found & self._last_run} - self._silent_until.keys()
        for name in sorted(names)[: MAX_NAMED - len(self._silent_until)]:
            log.warning("%s is locked by another transaction; %s until it is released", name, self._consequence)
            self._silent_until[name] = now + self._silent_seconds
        self._last_run = found
