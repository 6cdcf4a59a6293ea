"""Token bucket, by the instant at which it is full again (GCRA): pure functions, as gated claims have them in SQL.

A gate keeps one number, its theoretical arrival time `tat_ns`: each start moves it on by a period, and nothing may
start before it is less than the span ahead. All instants are nanoseconds of the database's clock.
"""

from app.catalog.endpoints.limits import Rate

FURTHEST_NS = 1_000_000_000  # beyond the span; starts are given out ahead by less


def pace(tat_ns: int, now_ns: int, rate: Rate) -> int:
    """Return the arrival time from which starts are counted on.

    An idle bucket fills up and no further. One from before the clock was set back, or from slower limits, lies further
    ahead than these limits can bring it: it is empty, and no more than that.
    """
    full = now_ns + rate.span_ns
    return full if tat_ns > full + FURTHEST_NS else max(tat_ns, now_ns)


def starts(tat_ns: int, now_ns: int, rate: Rate, place: int) -> int:
    """Return when the place-th execution from now may start, the next one being the first; maybe in the past."""
    return pace(tat_ns, now_ns, rate) + place * rate.period_ns - rate.span_ns


def after(tat_ns: int, now_ns: int, rate: Rate, count: int) -> int:
    """Return the arrival time once so many have been allowed."""
    return pace(tat_ns, now_ns, rate) + count * rate.period_ns


def most_until(tat_ns: int, now_ns: int, until_ns: int, rate: Rate) -> int:
    """Return how many may start by an instant that is not before now."""
    return max(0, (until_ns + rate.span_ns - pace(tat_ns, now_ns, rate)) // rate.period_ns)
