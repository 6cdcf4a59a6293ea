"""Statuses: each has a tone and a glyph, so that no status depends on its colour alone."""

from functools import lru_cache
from typing import NamedTuple

from markupsafe import Markup


class ShownStatus(NamedTuple):
    """A status as it is shown; `tone` is a class of the style sheet: good, bad, warn, busy, wait or off."""

    word: str
    tone: str
    glyph: str

    @property
    def mark(self) -> Markup:
        """The glyph alone, for a row of statuses."""
        return _mark(self)


_GLYPHS = {"good": "✓", "bad": "✕", "warn": "!", "busy": "▸", "wait": "◦", "off": "\N{EN DASH}"}
_WORDS = {
    "good": (
        "ACKNOWLEDGED ACTIVE ALIVE CLOSED COMPENSATED COMPLETED DONE ON OPENED RESOLVED SENT SUCCEEDED SUCCESS OK UP"
    ),
    "bad": "COMPENSATION_FAILED DEAD_LETTER EXHAUSTED FAILED FAILING LOST OPEN OVERDUE STUCK UNSERVED",
    "warn": "DRAINING HALF_OPEN PAUSED RETRYING STOPPING SUPPRESSED UNCERTAIN COMPENSATING STALE_RESULT",
    "busy": "EXPANDING RUNNING STARTED SENDING",
    "wait": "PENDING QUEUED READY SCHEDULED WAITING",
    "off": "ARCHIVED CANCELLED DEAD DELETED DISABLED DRAINED EXPIRED OFF RETIRED REVOKED SKIPPED STOPPED",
}
_TONES = {word: tone for tone, words in _WORDS.items() for word in words.split()}


@lru_cache(maxsize=256)
def _mark(shown: ShownStatus) -> Markup:
    return Markup('<span class="status {}" title="{}">{}</span>').format(shown.tone, shown.word, shown.glyph)


def status_of(value: str, tone: str = "") -> ShownStatus:
    """Return a status of the API in words; `tone` where it is another than usual, such as for an open letter."""
    word = str(value)
    found = tone or _TONES.get(word.upper(), "off")
    return ShownStatus(word.replace("_", " ").lower(), found, _GLYPHS[found])
