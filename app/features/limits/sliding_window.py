"""Sliding window, counted in hundredths: pure functions, equal to the SQL of limited claims.

A hundredth counts in full until it is over, and for one hundredth longer, because requests take time to arrive at the
receiver. So no window exceeds the limit, wherever it begins. All instants are nanoseconds of the database's clock.
"""

from collections.abc import Mapping

from app.catalog.endpoints.limits import BUCKETS, Rate

COUNTED = BUCKETS + 2  # the current hundredth, and one for requests under way


def bucket(now_ns: int, rate: Rate) -> int:
    """Return the beginning of the hundredth that counts a start at `now_ns`."""
    return now_ns - now_ns % rate.bucket_ns


def is_counted(bucket_ns: int, now_ns: int, rate: Rate) -> bool:
    """Return whether a hundredth still counts; a future hundredth does, because the clock was set back."""
    return bucket_ns > now_ns - COUNTED * rate.bucket_ns


def most(started: Mapping[int, int], now_ns: int, rate: Rate) -> int:
    """Return how many may start now, given the starts by hundredth."""
    counted = sum(count for begin, count in started.items() if is_counted(begin, now_ns, rate))
    return max(0, rate.count - counted)


def opens(oldest_ns: int, rate: Rate) -> int:
    """Return when the oldest counted hundredth stops counting."""
    return oldest_ns + COUNTED * rate.bucket_ns
