"""Token bucket (GCRA): pure functions, equal to the SQL of limited claims.

A limiter stores one number, its theoretical arrival time `tat_ns`, at which the bucket is full again. Each start adds
a period; a start is allowed once `tat_ns` is less than the span ahead. Instants are nanoseconds of the database's
clock.
"""

from app.catalog.endpoints.limits import Rate

FURTHEST_NS = 1_000_000_000  # beyond the span; starts are given out ahead by less


def pace(tat_ns: int, now_ns: int, rate: Rate) -> int:
    """Return the arrival time that the next start is added to, bounded by now and by an empty bucket.

    A stored time beyond an empty bucket stems from a clock that was set back, or from slower limits.
    """
    full = now_ns + rate.span_ns
    return full if tat_ns > full + FURTHEST_NS else max(tat_ns, now_ns)


def starts(tat_ns: int, now_ns: int, rate: Rate, place: int) -> int:
    """Return when the place-th execution from now may start (1: the next execution); may be in the past."""
    return pace(tat_ns, now_ns, rate) + place * rate.period_ns - rate.span_ns


def after(tat_ns: int, now_ns: int, rate: Rate, count: int) -> int:
    """Return the arrival time after `count` starts."""
    return pace(tat_ns, now_ns, rate) + count * rate.period_ns


def most_until(tat_ns: int, now_ns: int, until_ns: int, rate: Rate) -> int:
    """Return how many may start until an instant, which is not before now."""
    return max(0, (until_ns + rate.span_ns - pace(tat_ns, now_ns, rate)) // rate.period_ns)
