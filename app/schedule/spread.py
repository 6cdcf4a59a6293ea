"""Spread of schedules that start in the same minute: shifts by some minutes, which never raise the peak.

Only the minute field of a cron expression changes, within its hours, or the phase of an interval.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from app.schedule.cron_expression import WORDS, CronExpression
from app.schedule.day import MINUTE, Day, DayStarts, starts_on
from app.schedule.timetable import Timetable

FARTHEST = 30  # minutes by which an interval moves
_DAY_MINUTES = 1440


class ProposedMove(NamedTuple):
    """Proposal for a schedule: `offset` is 0 if the schedule stays, for the given reason."""

    offset: int
    table: Timetable
    reason: str = ""


def shifted(table: Timetable, offset: int) -> Timetable:
    """Return a timetable whose ticks are `offset` minutes later; `offsets` lists the allowed offsets."""
    if table.cron is None:
        return replace(table, starts_at=table.starts_at + offset * MINUTE)
    text = table.cron.strip(" \t")
    _, *others = re.split(r"[ \t]+", WORDS.get(text.lower(), text))
    minutes = [minute + offset for minute in CronExpression.parse(text).minutes]
    return replace(table, cron=" ".join([",".join(map(str, minutes)), *others]))


def offsets(table: Timetable) -> range:
    """Return the offsets that keep the meaning of a timetable; only 0 if the timetable cannot be moved."""
    if unmovable(table):
        return range(1)
    if table.cron is not None:
        minutes = CronExpression.parse(table.cron).minutes
        return range(-minutes[0], 60 - minutes[-1])
    most = min(FARTHEST, (table.every_ms or 0) // 60_000 // 2)
    return range(-most, most + 1)


def unmovable(table: Timetable) -> str:
    """Return why a timetable cannot be moved; empty for a movable timetable."""
    if table.cron is not None:
        fields = CronExpression.parse(table.cron)
        if fields.minutes[0] == 0 and fields.minutes[-1] == 59:
            return "The minutes reach from 0 to 59: no other minutes are free within the hours."
        if fields.sub_hourly and len(fields.hours) < 24:
            return (
                "The minute field begins with *: a list of minutes would run once where a clock change repeats an hour."
            )
        return ""
    if table.fixed_delay:
        return "Runs are counted from the end of the last run."
    minutes, rest = divmod(table.every_ms or 0, 60_000)
    if rest or minutes < 2 or _DAY_MINUTES % minutes:
        return "The interval does not divide a day into whole minutes."
    return ""


def proposed(
    day: Day, found: Sequence[tuple[Timetable, DayStarts, datetime]], by_minute: Sequence[int]
) -> tuple[list[ProposedMove], list[int]]:
    """Propose a move for each timetable, given with starts of the day and the creation of the job.

    The least loaded offset is proposed, the nearest among equals. Returns the moves, and the starts of each minute
    after all moves.
    """
    load, moves = list(by_minute), list[ProposedMove]()
    for table, starts, created_at in found:
        reason = unmovable(table)
        if reason:
            moves.append(ProposedMove(0, table, reason))
            continue
        places = _places(starts.minutes)
        _add(load, places, -1)
        offset = _best(table, load, places)
        # Clock changes and the edges of the day differ from shifted bits, so the new ticks decide.
        after = starts_on(day, shifted(table, offset), after=created_at) if offset else starts
        is_kept = after.starts == starts.starts and _peak(load, _places(after.minutes)) < _peak(load, places)
        _add(load, _places(after.minutes) if is_kept else places, 1)
        moves.append(
            ProposedMove(offset, shifted(table, offset))
            if is_kept
            else ProposedMove(0, table, "No nearby minute is less busy.")
        )
    return moves, load


def _best(table: Timetable, load: Sequence[int], places: Sequence[int]) -> int:
    return min(offsets(table), key=lambda offset: (_peak(load, places, offset), abs(offset), offset))


def _places(minutes: int) -> list[int]:
    return [place for place, bit in enumerate(reversed(f"{minutes:b}")) if bit == "1"]


def _add(load: list[int], places: Sequence[int], number: int) -> None:
    for place in places:
        load[place] += number


def _peak(load: Sequence[int], places: Sequence[int], offset: int = 0) -> int:
    return max((load[place + offset] for place in places if 0 <= place + offset < len(load)), default=0)
