"""Expiry: fail executions that waited longer than `max_age_ms` allows."""

from app.feature import Feature


class Expiry(Feature):
    """Expiry: fail executions that waited longer than `max_age_ms` allows."""

    name = "expiry"
