"""Limiters and the arithmetic of rates, equal to the SQL of limited claims; pure. Instants are in nanoseconds.

Token bucket (GCRA): a limiter stores one number, its theoretical arrival time `tat_ns`, at which the bucket is full
again. Each start adds a period; a start is allowed once `tat_ns` is less than the span ahead.

Sliding window: starts are counted by hundredth of the window. A hundredth counts in full until it is over, and for one
hundredth longer, because requests take time to arrive at the receiver. So no window exceeds the limit, wherever it
begins.
"""

from typing import NamedTuple

from app.catalog.endpoints.limits import BUCKETS, NS_PER_MS, EndpointLimits, Rate

UNBOUNDED = 1_000_000
LONGEST_AHEAD_NS = 200 * NS_PER_MS  # of a claim before the instant of its start
FURTHEST_NS = 1_000_000_000  # beyond the span; starts are claimed ahead by less
COUNTED = BUCKETS + 2  # the current hundredth, and a further hundredth for requests under way


class Limiter(NamedTuple):
    """Bounds of the claims of an endpoint, or of one of its keys if `limit_key` is not empty.

    A token bucket allows claims up to `ahead_ns` before the instant of their start.
    """

    gate_id: str
    endpoint: str
    limit_key: str
    max_in_flight: int | None
    rate: Rate | None
    ahead_ns: int


class LimiterState(NamedTuple):
    """State of a limiter as a claim found it; instants are relative to the claim.

    If not `is_ours`, nothing was claimed, because another worker was claiming through the limiter.
    """

    is_missing: bool
    is_ours: bool
    in_flight: int
    started: int  # within the window
    oldest_ns: int  # the beginning of the oldest hundredth that counts
    tat_ns: int

    def room(self, limiter: Limiter, claimed: int) -> int:
        """Return how many more executions it admits after `claimed`."""
        room, rate = UNBOUNDED, limiter.rate
        if limiter.max_in_flight is not None:
            room = limiter.max_in_flight - self.in_flight - claimed
        if rate is not None:
            left = rate.count - self.started
            if not rate.is_sliding:
                left = most_until(self.tat_ns, 0, limiter.ahead_ns, rate)
            room = min(room, left - claimed)
        return max(0, room)

    def opens_in_ns(self, limiter: Limiter, claimed: int) -> int | None:
        """Return when the rate admits the next execution; None if an execution must end first."""
        rate = limiter.rate
        if rate is None or (limiter.max_in_flight is not None and self.in_flight + claimed >= limiter.max_in_flight):
            return None
        if not rate.is_sliding:
            return max(0, starts(self.tat_ns, 0, rate, claimed + 1) - limiter.ahead_ns)
        if self.started + claimed < rate.count:
            return 0
        return max(0, opens(self.oldest_ns if self.started else -rate.bucket_ns, rate))


def limiters_of(limits: EndpointLimits, endpoint: str, limit_key: str, *, most_ahead: int) -> list[Limiter]:
    """Return the limiters of a partition, at most two; `most_ahead` starts may be claimed before their instants."""
    found = list[Limiter]()
    bounds: list[tuple[str, EndpointLimits | None]] = [("", limits)]
    if limit_key:
        bounds.append((limit_key, limits.per_key))
    for key, bound in bounds:
        if bound is not None and (bound.max_in_flight is not None or bound.rate is not None):
            rate = bound.rate
            ahead = 0 if rate is None or rate.is_sliding else min(LONGEST_AHEAD_NS, most_ahead * rate.period_ns)
            found.append(Limiter(endpoint + key, endpoint, key, bound.max_in_flight, rate, ahead))
    return found


def pace(tat_ns: int, now_ns: int, rate: Rate) -> int:
    """Return the arrival time that the next start is added to, bounded by now and by an empty bucket.

    A stored time beyond an empty bucket stems from a clock that was set back, or from slower limits.
    """
    full = now_ns + rate.span_ns
    return full if tat_ns > full + FURTHEST_NS else max(tat_ns, now_ns)


def starts(tat_ns: int, now_ns: int, rate: Rate, place: int) -> int:
    """Return when the place-th execution from now may start (1: the next execution); may be in the past."""
    return pace(tat_ns, now_ns, rate) + place * rate.period_ns - rate.span_ns


def most_until(tat_ns: int, now_ns: int, until_ns: int, rate: Rate) -> int:
    """Return how many may start until an instant, which is not before now."""
    return max(0, (until_ns + rate.span_ns - pace(tat_ns, now_ns, rate)) // rate.period_ns)


def opens(oldest_ns: int, rate: Rate) -> int:
    """Return when the oldest counted hundredth of a window stops counting."""
    return oldest_ns + COUNTED * rate.bucket_ns
