"""Places in the order of events: behind each event one, and one in front of each instant."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from app.kernel.formats import EPOCH, MICROSECOND

SOURCES = "abcejrst"
_TEXT = re.compile(r"([0-9]{1,16})(?:-([abcejrst])-([A-Za-z0-9_]{1,128}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """Behind the event of a source with a key at an instant; in front of all of that instant where both are empty.

    The text of the place behind an event is the event's id.
    """

    at: datetime
    source: str = ""
    key: str = ""

    def __str__(self) -> str:
        at = str((self.at - EPOCH) // MICROSECOND)
        return f"{at}-{self.source}-{self.key}" if self.source else at

    @classmethod
    def parse(cls, text: str) -> "Place | None":
        """Read the text of a place; None where it is not one."""
        match = _TEXT.fullmatch(text)
        if match is None:
            return None
        return cls(EPOCH + timedelta(microseconds=int(match[1])), match[2] or "", match[3] or "")

    def of_source(self, source: str) -> tuple[datetime, str]:
        """Return behind which instant and key the events of a source follow."""
        if source < self.source:
            return self.at + MICROSECOND, ""
        return (self.at, self.key) if source == self.source else (self.at, "")
