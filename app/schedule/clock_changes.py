"""Clock changes of a day, and their effect on cron schedules."""

from datetime import datetime, timedelta
from typing import NamedTuple

from app.kernel.formats import MICROSECOND
from app.schedule.cron import Schedule
from app.schedule.day import MINUTE, Day
from app.schedule.zones import change_between, time_zone


class ClockChange(NamedTuple):
    """Change of a zone's offset at an instant: local times from `first` to `last` do not exist, or come twice."""

    at: datetime
    timezone: str
    first: datetime
    last: datetime
    is_gap: bool

    @property
    def note(self) -> str:
        """Return the change in words."""
        first, last = (f"{time:%Y-%m-%d %H:%M}" for time in (self.first, self.last))
        return (
            f"Local times from {first} to {last} {'do not exist' if self.is_gap else 'come twice'} in {self.timezone}."
        )

    def affects(self, schedule: Schedule) -> bool:
        """Return whether a schedule of this zone matches one of the local times."""
        minutes = range(-((self.first - self.last) // MINUTE))
        return any(schedule.matches(self.first + number * MINUTE) for number in minutes)

    def effect_on(self, schedule: Schedule) -> str:
        """Return the effect on an affected schedule: `once`, `skipped` or `twice`."""
        if self.is_gap:
            return "skipped" if schedule.passes_over_gaps else "once"
        return "twice" if schedule.fires_in_both_passes else "once"


def changes_on(day: Day, timezone: str) -> list[ClockChange]:
    """List the clock changes of a zone within a day, in order."""
    zone, found = time_zone(timezone), list[ClockChange]()
    for start, end in day.hours():
        before, after = start - MICROSECOND, end - MICROSECOND
        if before.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
            found.append(_change(timezone, start, end))
    return found


def _change(timezone: str, start: datetime, end: datetime) -> ClockChange:
    """Find the change of the offset from `start`, or right before it, to `end`."""
    zone = time_zone(timezone)
    offset = (start - MICROSECOND).astimezone(zone).utcoffset()
    at = change_between(zone, start - MICROSECOND, end - MICROSECOND)
    after = at.astimezone(zone).replace(tzinfo=None, fold=0)
    before = at.replace(tzinfo=None) + (offset or timedelta())
    return ClockChange(at, timezone, min(before, after), max(before, after), is_gap=after > before)
