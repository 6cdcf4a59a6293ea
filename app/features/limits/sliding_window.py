"""Sliding window, by counts of its hundredths: pure functions, as gated claims have them in SQL.

A hundredth counts as a whole until all of it is over, and one more for what is under way to its receiver, so that no
window has more than allowed wherever it begins. All instants are nanoseconds of the database's clock.
"""

from collections.abc import Mapping

from app.catalog.endpoints.limits import BUCKETS, Rate

COUNTED = BUCKETS + 2  # the current one is not over, and one is for what is under way


def bucket(now_ns: int, rate: Rate) -> int:
    """Return the beginning of the hundredth in which what starts now is counted."""
    return now_ns - now_ns % rate.bucket_ns


def is_counted(bucket_ns: int, now_ns: int, rate: Rate) -> bool:
    """Return whether what started in a hundredth still counts; one ahead does, since the clock was set back."""
    return bucket_ns > now_ns - COUNTED * rate.bucket_ns


def most(started: Mapping[int, int], now_ns: int, rate: Rate) -> int:
    """Return how many may start now, by what started in each hundredth."""
    counted = sum(count for begin, count in started.items() if is_counted(begin, now_ns, rate))
    return max(0, rate.count - counted)


def opens(oldest_ns: int, rate: Rate) -> int:
    """Return when the oldest hundredth that counts does so no longer."""
    return oldest_ns + COUNTED * rate.bucket_ns
