"""Python model of the rate arithmetic that the product does in SQL, beside `app.features.limits.rules`."""

from collections.abc import Mapping

from app.catalog.endpoints.limits import Rate
from app.features.limits.rules import COUNTED, pace


def after(tat_ns: int, now_ns: int, rate: Rate, count: int) -> int:
    """Return the theoretical arrival time of a token bucket after `count` starts."""
    return pace(tat_ns, now_ns, rate) + count * rate.period_ns


def bucket(now_ns: int, rate: Rate) -> int:
    """Return the beginning of the bucket (a hundredth of the window) that counts a start at `now_ns`."""
    return now_ns - now_ns % rate.bucket_ns


def is_counted(bucket_ns: int, now_ns: int, rate: Rate) -> bool:
    """Return whether a bucket still counts. A future bucket counts too: it means that the clock was set back."""
    return bucket_ns > now_ns - COUNTED * rate.bucket_ns


def most(started: Mapping[int, int], now_ns: int, rate: Rate) -> int:
    """Return how many executions may start now, given the starts by bucket."""
    counted = sum(count for begin, count in started.items() if is_counted(begin, now_ns, rate))
    return max(0, rate.count - counted)
