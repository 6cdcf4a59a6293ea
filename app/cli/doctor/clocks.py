"""Clocks: how far that of this machine is from that of the database, by which everything is due."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from app.cli.doctor.finding import Finding, Patient
from app.sql import statement

TOLERATED = timedelta(seconds=1)

NOW = statement("doctor.now", "SELECT clock_timestamp() AS now")


def this_machine(patient: Patient) -> Iterator[Finding]:
    """Compare the clocks, at the middle of a round trip."""
    before = datetime.now(UTC)
    there = patient.database.fetch(NOW)[0].now
    after = datetime.now(UTC)
    skew, trip = there - (before + (after - before) / 2), after - before
    if abs(skew) > TOLERATED + trip / 2:
        side = "behind" if skew > timedelta(0) else "ahead of"
        seconds = abs(skew) / timedelta(seconds=1)
        problem = f"this machine's clock is {seconds:.1f} s {side} the database's"
        fix = "run NTP here and on the database; jobs are due by the database's clock, tokens and logs go by this one"
        yield Finding("clocks", problem, fix)
