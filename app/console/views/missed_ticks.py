"""Pictures of three ticks under each rule for missed and for overlapping runs, as numbers for SVG.

The choice of ticks by the scheduler decides each picture.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from app.schedule.due_ticks import DueJob, choose_ticks
from app.schedule.timetable import Timetable
from schema.states import CatchUp, Overlap

TICKS = 3  # within the outage, or the long run
APART = 44  # pixels between ticks
_FIRST = 14
_BAND = (_FIRST + APART // 2, _FIRST + TICKS * APART + 10)
_CLOSE = 8  # distance of runs that start together
_HOUR = timedelta(hours=1)
_START = datetime(2026, 1, 1, tzinfo=UTC)
_NOW = _START + (TICKS + 0.5) * _HOUR


class TickPicture(NamedTuple):
    """Ticks before, within and behind a band of time.

    Attributes:
        band: Begin and end of the outage, or of the long run.
        starts: Places at which runs start.
        left_out: Places of the ticks that start no run.
        late: Places of the ticks whose runs start after the band.
        words: The picture as text.
    """

    band: tuple[int, int]
    starts: Sequence[int]
    left_out: Sequence[int]
    late: Sequence[int]
    words: str


def picture_of_catch_up(rule: CatchUp) -> TickPicture:
    """Draw an outage of all schedulers."""
    run = _chosen(Timetable(every_ms=_HOUR // timedelta(milliseconds=1), starts_at=_START, catch_up=rule), busy=False)
    late = [_place(number) for number in run]
    together = [_BAND[1] + 5 + _CLOSE * nth for nth in range(len(late))]
    caught_up = "no run starts" if not late else f"{_count(len(late))} start{'s' * (len(late) == 1)} after it"
    words = f"Three runs missed in an outage: {caught_up}"
    return TickPicture(_BAND, [_place(0), *together, _place(TICKS + 1)], _places_without(run), late, words)


def picture_of_overlap(rule: Overlap) -> TickPicture:
    """Draw a run that takes until after three further ticks."""
    table = Timetable(every_ms=_HOUR // timedelta(milliseconds=1), starts_at=_START, overlap=rule)
    run = _chosen(table, busy=True)
    on_time = "no run starts" if not run else f"{_count(len(run))} start on time"
    words = f"Three runs due during a long run: {on_time}"
    starts = [_place(number) for number in (0, *run, TICKS + 1)]
    return TickPicture((_FIRST, _BAND[1]), starts, _places_without(run), (), words)


def _chosen(table: Timetable, *, busy: bool) -> Sequence[int]:
    """Return the numbers of the ticks for which the scheduler starts runs, from 1."""
    job = DueJob("", table, _START + _HOUR, busy, _NOW, _NOW)
    found = choose_ticks(job, TICKS, timedelta(), TICKS)
    return [] if found is None else [(tick - _START) // _HOUR for tick in found.ticks]


def _places_without(run: Sequence[int]) -> list[int]:
    return [_place(number) for number in range(1, TICKS + 1) if number not in run]


def _place(number: int) -> int:
    return _FIRST + APART * number


def _count(number: int) -> str:
    return "all three" if number == TICKS else "the latest"
