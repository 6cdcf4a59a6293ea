"""Rules of the time zones: which ones this process reads, and what a change of them does to a next run."""

import hashlib
import zoneinfo
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path

from app.schedule.timetable import Timetable

# Governments move a zone by an hour, rarely by more: what ran before this does not count as run by the new rules.
_LARGEST_SHIFT = timedelta(hours=3)


def digest() -> str:
    """Return a digest of all zone files that this process reads: not every system says which version it has."""
    content = hashlib.sha256()
    for name in sorted(zoneinfo.available_timezones()):
        content.update(name.encode() + b"\0" + _file(name))
    return content.hexdigest()


def moved(
    table: Timetable, next_run_at: datetime, *, last_tick_at: datetime | None, created_at: datetime, horizon: datetime
) -> datetime:
    """Return where the present rules want the next run of a cron job.

    Ticks up to the horizon may have their executions already, so a next run is never moved there. One that the present
    rules would have had before it stays where it is: late, rather than lost.
    """
    last = last_tick_at or created_at
    tick = table.next_after(max(horizon, last))
    if tick is None or tick <= next_run_at:
        return tick or next_run_at
    passed = table.next_after(max(next_run_at - _LARGEST_SHIFT, last))
    return next_run_at if passed is not None and passed <= horizon else tick


def _file(name: str) -> bytes:
    # In the order in which zoneinfo looks.
    for directory in zoneinfo.TZPATH:
        path = Path(directory, name)
        if path.is_file():
            return path.read_bytes()
    return files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
