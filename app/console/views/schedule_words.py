"""Words about schedules: their rules, and what happens to ticks that are missed or overlap."""

from datetime import datetime, timedelta

from app.kernel.formats import show_duration
from app.schedule import preview
from app.schedule.timetable import Timetable
from schema.states import CatchUp, Overlap

CATCH_UP = {
    CatchUp.ALL: "After an outage, missed runs are caught up, the latest ones if there is a bound.",
    CatchUp.LATEST: "After an outage, only the latest missed run is caught up.",
    CatchUp.NONE: "After an outage, missed runs are left out; one missed by less than a minute still runs.",
}
OVERLAP = {
    Overlap.ALLOW: "A run starts on time, even while an earlier one is unfinished.",
    Overlap.SKIP: "A run is left out while an earlier one is unfinished.",
}


def rule_of(table: Timetable) -> str:
    """Return the rule as it is typed, such as `0 9 * * MON` or `every 5m`."""
    if table.cron is not None:
        return table.cron
    every = show_duration(table.every_ms or 0)
    return f"{every} after the end of a run" if table.fixed_delay else f"every {every}"


def words_of(table: Timetable) -> str:
    """Return a cron expression in English with its zone; an interval needs no words."""
    if table.cron is None:
        return ""
    return f"{preview.describe(table.cron)}, {table.timezone}"


def overdue_by(next_run_at: datetime | None, now: datetime, grace: timedelta) -> timedelta | None:
    """Return how late a next run is; None if it is not late by more than the grace."""
    if next_run_at is None or next_run_at >= now - grace:
        return None
    return now - next_run_at
