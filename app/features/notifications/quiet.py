"""Quiet hours: when a rule keeps what it has to tell, by the clocks on the walls of a time zone. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Self
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_A_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class QuietHours:
    """From one time of the day to another one, which is on the next day where it is not later; on days they begin on.

    Where clocks are turned back over the beginning or the end, the earlier beginning and the later end count. A time
    that clocks leave out is as long after the one before it as it would have been.
    """

    begins: time
    ends: time
    days: frozenset[int]
    zone: ZoneInfo

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read what a rule has stored."""
        days = value.get("days") or DAYS
        begins, ends = (time.fromisoformat(value[name]) for name in ("from", "to"))
        return cls(begins, ends, frozenset(map(DAYS.index, days)), ZoneInfo(value["timezone"]))

    def until(self, now: datetime) -> datetime | None:
        """Return the instant at which the quiet hours end that `now` is in; None outside of them."""
        today = now.astimezone(self.zone).date()
        # The hours that began yesterday may go on.
        for day in (today - _A_DAY, today):
            if day.weekday() in self.days:
                begins, ends = self._hours_of(day)
                if begins <= now < ends:
                    return ends
        return None

    def _hours_of(self, day: date) -> tuple[datetime, datetime]:
        last = day if self.begins < self.ends else day + _A_DAY
        begins = datetime.combine(day, self.begins, self.zone)
        ends = datetime.combine(last, self.ends.replace(fold=1), self.zone)
        if not _exists(ends):
            # In a gap the second reading is the earlier instant.
            ends = ends.replace(fold=0)
        return begins.astimezone(UTC), ends.astimezone(UTC)


def _exists(local: datetime) -> bool:
    there_and_back = local.astimezone(UTC).astimezone(local.tzinfo)
    return there_and_back.replace(tzinfo=None, fold=0) == local.replace(tzinfo=None, fold=0)
