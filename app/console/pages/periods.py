"""Periods that pages offer until now, the period that an address chooses, and its fixed time."""

from datetime import datetime, timedelta

from app.console.http.forms import query, refuse
from app.console.http.page_rendering import here, now
from app.kernel.formats import rfc3339

PERIODS = {
    "5m": timedelta(minutes=5),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
USUAL = "1h"
LONGEST = timedelta(days=90)
LAST, FROM, UNTIL = "last", "from", "until"


def chosen_period(field: str = LAST) -> str:
    """Return the name of the period in a field of the address."""
    return query().choice(field, PERIODS, USUAL)


def pinned_time() -> tuple[datetime, datetime] | None:
    """Return the fixed time of the address; None without one. Raises InvalidRequestError."""
    since, until = query().instant(FROM), query().instant(UNTIL)
    if since is None:
        return None if until is None else refuse(FROM, f"Is missing, and `{UNTIL}` is given.")
    until = until or now()
    if not since < until <= since + LONGEST:
        refuse(FROM, f"Must lie before `{UNTIL}`, by at most {LONGEST.days} days.")
    return since, until


def address_of_time(since: datetime, until: datetime) -> str:
    """Return the address of this page with a fixed time."""
    return here(**{LAST: "", FROM: rfc3339(since), UNTIL: rfc3339(until)})


def choice_of_periods() -> dict[str, str]:
    """Return the addresses of this page by the period that they choose."""
    return {name: here(**{LAST: name, FROM: "", UNTIL: ""}) for name in PERIODS}


def shown_period() -> str:
    """Return the name of the shown period; empty for a fixed time."""
    return "" if pinned_time() else chosen_period()


def neighbours(since: datetime, until: datetime) -> tuple[str, str]:
    """Return the addresses of the time before and of the time after; the latter is empty if it has not begun."""
    length = until - since
    return address_of_time(since - length, since), address_of_time(until, until + length) if until < now() else ""
