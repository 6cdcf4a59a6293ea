"""Periods until now that pages offer, and the period that an address chooses."""

from datetime import timedelta

from app.console.http.forms import query

PERIODS = {
    "5m": timedelta(minutes=5),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
USUAL = "1h"


def chosen_period(field: str = "last") -> str:
    """Return the name of the period in a field of the address."""
    return query().choice(field, PERIODS, USUAL)
