"""Quiet hours: local times in which a rule sends no message. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Self
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Range of local time that begins on each of `days`, and ends on the next day unless `ends` is later than `begins`.

    A beginning that occurs twice (clocks turned back) is the earlier instant, an end the later instant. A time that
    clocks skip is moved forward by the length of the gap.
    """

    begins: time
    ends: time
    days: frozenset[int]
    zone: ZoneInfo

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        days = value.get("days") or DAYS
        begins, ends = (time.fromisoformat(value[name]) for name in ("from", "to"))
        return cls(begins, ends, frozenset(map(DAYS.index, days)), ZoneInfo(value["timezone"]))

    def until(self, now: datetime) -> datetime | None:
        """Return the end of the quiet hours that contain `now`; None outside quiet hours."""
        today = now.astimezone(self.zone).date()
        # Quiet hours that began yesterday may still last.
        for day in (today - _DAY, today):
            if day.weekday() in self.days:
                begins, ends = self._hours_of(day)
                if begins <= now < ends:
                    return ends
        return None

    def _hours_of(self, day: date) -> tuple[datetime, datetime]:
        last = day if self.begins < self.ends else day + _DAY
        begins = datetime.combine(day, self.begins, self.zone)
        ends = datetime.combine(last, self.ends.replace(fold=1), self.zone)
        if not _exists(ends):
            # In a gap, fold=1 is the earlier instant.
            ends = ends.replace(fold=0)
        return begins.astimezone(UTC), ends.astimezone(UTC)


def _exists(local: datetime) -> bool:
    there_and_back = local.astimezone(UTC).astimezone(local.tzinfo)
    return there_and_back.replace(tzinfo=None, fold=0) == local.replace(tzinfo=None, fold=0)
