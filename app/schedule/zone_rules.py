"""Time zone rules: their digest in this process, and the next run of a cron job after a change of the rules."""

import hashlib
import zoneinfo
from datetime import datetime, timedelta
from importlib.resources import files
from pathlib import Path

from app.schedule.timetable import Timetable

# Zones move by an hour, rarely by more: a run that lies further back does not count as a run by the new rules.
_LARGEST_SHIFT = timedelta(hours=3)


def digest() -> str:
    """Return a digest of all zone files that this process reads: not every system reports a version."""
    content = hashlib.sha256()
    for name in sorted(zoneinfo.available_timezones()):
        content.update(name.encode() + b"\0" + _file(name))
    return content.hexdigest()


def moved(
    table: Timetable, next_run_at: datetime, *, last_tick_at: datetime | None, created_at: datetime, horizon: datetime
) -> datetime:
    """Return the next run of a cron job by the present rules.

    Ticks up to the horizon may already have executions, so a next run is never moved there. A next run that the present
    rules place before the horizon stays unchanged: late rather than lost.
    """
    last = last_tick_at or created_at
    tick = table.next_after(max(horizon, last))
    if tick is None or tick <= next_run_at:
        return tick or next_run_at
    passed = table.next_after(max(next_run_at - _LARGEST_SHIFT, last))
    return next_run_at if passed is not None and passed <= horizon else tick


def _file(name: str) -> bytes:
    # In the search order of zoneinfo.
    for directory in zoneinfo.TZPATH:
        path = Path(directory, name)
        if path.is_file():
            return path.read_bytes()
    return files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
