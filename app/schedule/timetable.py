"""Timetable of a repeating job: when it fires, and the rules for missed and overlapping ticks."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from operator import itemgetter
from typing import Any

from app.kernel.errors import Detail, InvalidCronError, InvalidRequestError
from app.kernel.formats import MICROSECOND
from app.schedule.cron import Schedule
from app.schedule.interval import Interval
from schema.states import CatchUp, Overlap

# After a long outage, this many missed ticks of a job run, unless the job sets `max_catch_up`.
DEFAULT_MAX_CATCH_UP = 100


_COLUMNS = {
    "cron": "cron_expression",
    "timezone": "cron_timezone",
    "every_ms": "interval_ms",
    "fixed_delay": "fixed_delay",
    "starts_at": "cron_starts_at",
    "ends_at": "cron_ends_at",
    "catch_up": "catch_up",
    "max_catch_up": "max_catch_up",
    "overlap": "overlap",
}
_stored = itemgetter(*_COLUMNS.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """A cron expression in a time zone, or an interval in milliseconds, between two instants.

    `fixed_delay` counts an interval from the end of the previous execution instead of from tick to tick.
    """

    cron: str | None = None
    timezone: str | None = None
    every_ms: int | None = None
    fixed_delay: bool = False
    starts_at: datetime
    ends_at: datetime | None = None
    catch_up: CatchUp = CatchUp.ALL
    max_catch_up: int | None = None
    overlap: Overlap = Overlap.ALLOW

    @classmethod
    def stored(cls, row: Mapping[str, Any]) -> "Timetable":
        """Read the timetable of a repeating job from the columns of its row."""
        return _remembered(_stored(row), row["cron_starts_at"] or row["created_at"])

    def as_columns(self) -> dict[str, Any]:
        """Write the timetable as the columns that `stored` reads."""
        values = {column: getattr(self, name) for name, column in _COLUMNS.items()}
        return values | {"catch_up": self.catch_up.value, "overlap": self.overlap.value}

    def ticks(self) -> Interval | Schedule:
        """Return the series of ticks; raises InvalidCronError or InvalidRequestError if it cannot be parsed."""
        if self.every_ms is not None:
            return Interval(self.starts_at, self.every_ms)
        return Schedule.parse(self.cron or "", self.timezone or "")

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first tick strictly after an instant, from starts_at on and before ends_at."""
        return self.following(max(instant, self.starts_at - MICROSECOND))

    def following(self, instant: datetime) -> datetime | None:
        """Return the first tick strictly after an instant that is not before starts_at, such as a tick."""
        tick = self.ticks().next_after(instant)
        return None if tick is None or self.is_over(tick) else tick

    def is_over(self, tick: datetime) -> bool:
        return self.ends_at is not None and tick >= self.ends_at

    def local(self, instant: datetime) -> datetime:
        """Return an instant in the job's own time zone."""
        if self.cron is None:
            return instant.astimezone(UTC)
        return Schedule.parse(self.cron, self.timezone or "").local(instant)

    def first_tick(self, now: datetime, *, start_given: bool, after: datetime | None = None) -> datetime:
        """Return the first tick of a new job, strictly after `after`.

        A start in the past counts as now: the job did not exist then, so it missed no tick. Without a given start, an
        interval passes before the first tick, as in setInterval. Raises InvalidCronError, or InvalidRequestError for an
        interval, if no tick lies between start and end.
        """
        tick = self.next_after(max(self.starts_at, now) - MICROSECOND) if start_given else self.next_tick(now)
        if tick is not None and after is not None and tick <= after:
            tick = self.next_after(after)
        if tick is not None:
            return tick
        message = "There is no tick between starts_at and ends_at."
        if self.cron is not None:
            raise InvalidCronError.of_faults(Detail(pointer="/cron", message=message))
        raise InvalidRequestError.of_faults(Detail(pointer="/every", message=message))

    def next_tick(self, now: datetime) -> datetime | None:
        """Return the tick with which a job continues now; with a fixed delay, after one interval."""
        if not self.fixed_delay or self.every_ms is None or now < self.starts_at:
            return self.next_after(now)
        tick = now + timedelta(milliseconds=self.every_ms)
        return None if self.is_over(tick) else tick


# A day of schedules reads thousands, again and again.
@lru_cache(maxsize=8192)
def _remembered(columns: tuple[Any, ...], starts_at: datetime) -> Timetable:
    values = dict(zip(_COLUMNS, columns, strict=True)) | {"starts_at": starts_at}
    values["catch_up"], values["overlap"] = CatchUp(values["catch_up"]), Overlap(values["overlap"])
    return Timetable(**values)
