"""Sliding window as pure functions, compared with a model that keeps every start."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import cycle

from hypothesis import given, settings
from hypothesis import strategies as st

from app.catalog.endpoints.limits import BUCKETS, NS_PER_MS, Rate
from app.features.limits.rules import opens
from tests.rate_model import bucket, is_counted, most
from tests.starts import MOST, SECOND, most_within

RATES = st.builds(
    Rate,
    count=st.integers(1, 100),
    per_ns=st.sampled_from([SECOND, 1_001 * NS_PER_MS, 7_777 * NS_PER_MS]),
    burst=st.just(1),
    is_sliding=st.just(True),
)


@dataclass
class Limiter:
    """Limiter that admits starts by the pure functions and records each start."""

    rate: Rate
    started: Counter[int] = field(default_factory=Counter)
    starts: list[int] = field(default_factory=list)

    def ask(self, now: int, wanted: int) -> int:
        fits = min(wanted, most(self.started, now, self.rate))
        for begin in [begin for begin in self.started if not is_counted(begin, now, self.rate)]:
            del self.started[begin]
        self.starts += [now] * fits
        if fits:
            self.started[bucket(now, self.rate)] += fits
        return fits


# In thousandths of a window: any time, or near the end of a window.
GAPS = st.integers(0, 1_100) | st.integers(970, 1_030)


@settings(max_examples=300, deadline=None)
@given(RATES, st.lists(st.tuples(GAPS, st.integers(1, 200)), max_size=20), st.integers(0, 100 * SECOND))
def test_no_window_has_more_starts_than_the_count(rate: Rate, asks: list[tuple[int, int]], now: int) -> None:
    limiter = Limiter(rate)
    for gap, wanted in asks:
        now += gap * rate.per_ns // 1_000
        limiter.ask(now, wanted)
    # Not even a window that is longer by the allowed lateness of a start.
    assert most_within(limiter.starts, rate.per_ns + rate.per_ns // BUCKETS) <= rate.count


@settings(deadline=None)
@given(RATES, st.lists(st.integers(1, 100), min_size=1, max_size=20))
def test_endless_work_uses_97_percent_of_the_rate(rate: Rate, wanted: list[int]) -> None:
    """The limiter is asked when the oldest bucket expires, and in between whenever there is work."""
    limiter, began = Limiter(rate), 10**18
    until, now = began + 10 * rate.per_ns, began
    for some in cycle(wanted):
        fits = limiter.ask(now, some)
        if fits < some:
            now = opens(min(limiter.started), rate)
        else:
            now += 5 * NS_PER_MS
        if now > until:
            break
    # Compare with full windows only: the last window may still lack starts.
    assert sum(start < until for start in limiter.starts) >= 10 * rate.count * 0.97 - most_within(limiter.starts, 1)


@given(RATES, st.integers(1, 1_000), st.integers(0, 24 * 3600 * SECOND))
def test_clock_set_back_gives_no_extra_starts(rate: Rate, wanted: int, back: int) -> None:
    limiter, now = Limiter(rate), 10**18
    before = limiter.ask(now, wanted)
    assert before + limiter.ask(now - back, MOST) <= rate.count


@given(RATES, st.integers(0, 100 * SECOND))
def test_bucket_stops_counting_at_the_calculated_time(rate: Rate, now: int) -> None:
    begin = bucket(now, rate)
    assert begin <= now < begin + rate.bucket_ns
    opens_at = opens(begin, rate)
    assert not is_counted(begin, opens_at, rate)
    assert is_counted(begin, opens_at - 1, rate)
