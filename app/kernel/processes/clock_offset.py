"""The clock of this process against that of the database, by which everything is due."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from app.kernel.db import Database
from app.kernel.sql import statement

TOLERATED = timedelta(seconds=1)
RUN_NTP = (
    "run NTP (chrony, systemd-timesyncd) {where} and on the database; jobs are due by the database's clock, tokens and "
    "logs go by that of the process"
)
NOW = statement("health.now", "SELECT clock_timestamp() AS now")


@dataclass(frozen=True, slots=True)
class ClockReading:
    """How far a process's clock is ahead of the database's, which is true to within `bound` either way."""

    ahead: timedelta
    bound: timedelta


def read_clocks(database: Database) -> ClockReading:
    """Compare the two; the longer the answer is under way, the less is known. Raises UnavailableError.

    The database has read its clock between the question and the answer, and nobody knows when: at the middle of it the
    error is half of that time at most, however the delay is divided between both ways.
    """
    asked_at, began = datetime.now(UTC), time.monotonic()
    there = database.fetch(NOW)[0].now
    half = timedelta(seconds=(time.monotonic() - began) / 2)
    return ClockReading(asked_at + half - there, half)


def distance(ahead: timedelta) -> str:
    """Write for a sentence how far a clock is from the database's."""
    side = "ahead of" if ahead > timedelta(0) else "behind"
    return f"{abs(ahead) / timedelta(seconds=1):.1f} s {side}"
