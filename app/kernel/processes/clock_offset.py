"""Offset between the clock of this process and the clock of the database, which decides when work is due."""

import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from app.kernel.db import Database
from app.kernel.sql import statement

TOLERATED = timedelta(seconds=1)
RUN_NTP = (
    "run NTP (chrony, systemd-timesyncd) {where} and on the database; jobs are due by the database's clock, tokens and "
    "logs use the clock of the process"
)
NOW = statement("health.now", "SELECT clock_timestamp() AS now")


class ClockReading(NamedTuple):
    """Lead of a process's clock over the database's clock, with an error of at most `bound` in either direction."""

    ahead: timedelta
    bound: timedelta


def read_clocks(database: Database) -> ClockReading:
    """Compare both clocks; raises UnavailableError.

    The database reads its clock at an unknown instant between question and answer. The middle of that time is wrong by
    at most half of it.
    """
    # In this order a pause between the two readings makes the bound larger, not the offset wrong.
    began, asked_at = time.monotonic(), datetime.now(UTC)
    there = database.fetch(NOW)[0].now
    half = timedelta(seconds=(time.monotonic() - began) / 2)
    return ClockReading(asked_at + half - there, half)


def distance(ahead: timedelta) -> str:
    """Return the offset from the database's clock, such as `1.5 s behind`."""
    side = "ahead of" if ahead > timedelta(0) else "behind"
    return f"{abs(ahead) / timedelta(seconds=1):.1f} s {side}"
