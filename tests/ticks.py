"""Ticks of a schedule."""

from datetime import datetime

from app.schedule.cron import Schedule


def ticks_between(schedule: Schedule, begin: datetime, end: datetime) -> list[datetime]:
    """List the ticks in (begin, end]."""
    found, tick = [], schedule.next_after(begin)
    while tick is not None and tick <= end:
        found.append(tick)
        tick = schedule.next_after(tick)
    return found
