"""Time zone rules: their digest in this process, and the next run of a cron job after a change of the rules."""

import hashlib
from datetime import datetime, timedelta
from importlib.resources.abc import Traversable

from app.schedule.timetable import Timetable
from app.schedule.zones import DATABASE, file_of, names

# Zones move by an hour, rarely by more: a run that lies further back does not count as a run by the new rules.
_LARGEST_SHIFT = timedelta(hours=3)


def digest(database: Traversable = DATABASE) -> str:
    """Return a digest of all zone files: a distributor may change rules and keep the version."""
    content = hashlib.sha256()
    for name in sorted(names()):
        content.update(name.encode() + b"\0" + file_of(name, database).read_bytes())
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
