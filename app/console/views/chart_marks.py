"""Marks of charts: changes that may explain a course, as one line for each step with changes; pure."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from app.console.views.event_lines import EventLine
from app.features.rollups.delivery_history import Range

MAX_WORDS = 3
_TONES = ("bad", "warn", "wait", "good")  # the tone of a mark is the first of these


class Mark(NamedTuple):
    """Changes of one step, at the instant of the first."""

    at: datetime
    tone: str
    words: str


def marks_of(lines: Sequence[EventLine], wanted: Range) -> list[Mark]:
    """Return the marks of the steps of a chart, in order."""
    by_step: dict[int, list[EventLine]] = {}
    for line in sorted(lines, key=lambda line: line.at):
        by_step.setdefault(wanted.place(line.at), []).append(line)
    return [
        Mark(found[0].at, min((each.tone for each in found), key=_TONES.index), _words(found))
        for _, found in sorted(by_step.items())
    ]


def _words(lines: Sequence[EventLine]) -> str:
    """Name a change with its subject, and several changes of one kind by their number."""
    counted = Counter(line.what for line in lines)
    subjects = {line.what: line.of for line in lines}
    named = [f"{what} {subjects[what]}" if count == 1 else f"{what} ({count})" for what, count in counted.items()]
    left = len(named) - MAX_WORDS
    return ", ".join(named[:MAX_WORDS] + ([f"{left} more"] if left > 0 else []))
