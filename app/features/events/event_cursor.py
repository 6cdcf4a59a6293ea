"""Positions in the order of events: one behind each event, and one before each instant."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.kernel.formats import EPOCH, MICROSECOND

SOURCES = "abcejrst"
_TEXT = re.compile(r"([0-9]{1,16})(?:-([abcejrst])-([A-Za-z0-9_]{1,128}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class EventPosition:
    """Position behind the event of a source and key at an instant; before all events of it if both are empty.

    The text of the position behind an event is the event's id.
    """

    at: datetime
    source: str = ""
    key: str = ""

    def __str__(self) -> str:
        at = str((self.at - EPOCH) // MICROSECOND)
        return f"{at}-{self.source}-{self.key}" if self.source else at

    @classmethod
    def parse(cls, text: str) -> "EventPosition | None":
        """Parse the text of a position; returns None for any other text."""
        match = _TEXT.fullmatch(text)
        if match is None:
            return None
        return cls(EPOCH + timedelta(microseconds=int(match[1])), match[2] or "", match[3] or "")

    def of_source(self, source: str) -> tuple[datetime, str]:
        """Return the instant and the key after which the events of a source follow."""
        if source < self.source:
            return self.at + MICROSECOND, ""
        return (self.at, self.key) if source == self.source else (self.at, "")
