"""Token bucket as pure functions, compared with a model that keeps every start."""

from dataclasses import dataclass, field
from itertools import cycle

from hypothesis import given, settings
from hypothesis import strategies as st

from app.catalog.endpoints.limits import LATENESS_NS, NS_PER_MS, Rate, default_burst
from app.features.limits import rules
from tests import rate_model
from tests.starts import MOST, SECOND, most_within

AHEAD = 200 * NS_PER_MS
LONGEST_PER_MS = 86_400_000


@st.composite
def rates(draw: st.DrawFn, longest_ms: int = 60_000, most: int = 100) -> Rate:
    count = draw(st.integers(1, most))
    per_ms = draw(st.sampled_from([1_000, 1_001, 7_777, 60_000, longest_ms]).filter(lambda ms: ms <= longest_ms))
    burst = draw(st.integers(1, count) | st.just(default_burst(count, per_ms)).map(lambda some: min(some, count)))
    return Rate(count, per_ms * NS_PER_MS, burst, is_sliding=False)


ASKS = st.lists(st.tuples(st.integers(0, 100 * NS_PER_MS), st.integers(0, 200)), min_size=1, max_size=30)


@dataclass
class Limiter:
    """Limiter that admits starts by the pure functions and records each start."""

    rate: Rate
    tat: int = 0
    starts: list[int] = field(default_factory=list)

    def ask(self, now: int, wanted: int, ahead: int = AHEAD) -> int:
        fits = min(wanted, rules.most_until(self.tat, now, now + ahead, self.rate))
        self.starts += [max(now, rules.starts(self.tat, now, self.rate, place + 1)) for place in range(fits)]
        self.tat = rate_model.after(self.tat, now, self.rate, fits) if fits else self.tat
        return fits


@given(st.integers(1, MOST), st.integers(1_000, LONGEST_PER_MS))
def test_the_whole_count_takes_the_whole_period(count: int, per_ms: int) -> None:
    rate = Rate(count, per_ms * NS_PER_MS, 1, is_sliding=False)
    assert rate.count * rate.period_ns >= rate.per_ns > rate.count * (rate.period_ns - 1)


@settings(deadline=None)
@given(rates(), ASKS, st.integers(0, 100 * SECOND))
def test_no_window_has_more_starts_than_the_count_and_the_burst(
    rate: Rate, asks: list[tuple[int, int]], now: int
) -> None:
    limiter = Limiter(rate)
    for gap, wanted in asks:
        now += gap
        limiter.ask(now, wanted)
    assert most_within(limiter.starts, rate.per_ns) <= rate.count + rate.burst


@settings(deadline=None)
@given(rates(longest_ms=1_001), st.lists(st.integers(5 * NS_PER_MS, 100 * NS_PER_MS), min_size=1, max_size=20))
def test_endless_work_uses_the_whole_rate_and_no_more(rate: Rate, gaps: list[int]) -> None:
    """Requests come up to 100 ms apart; the rounding of the period loses less than one start in ten windows."""
    limiter, began = Limiter(rate), 10**18
    until, now = began + 10 * rate.per_ns, began
    for gap in cycle(gaps):
        limiter.ask(now, MOST)
        now += gap
        if now > until:
            break
    assert sum(start < until for start in limiter.starts) >= 10 * rate.count - 1
    # Late starts do not raise the maximum: part of the burst is held back for lateness.
    if rate.burst * rate.period_ns >= LATENESS_NS:
        assert most_within(limiter.starts, rate.per_ns + LATENESS_NS) <= rate.count + rate.burst


@given(rates(), st.integers(0, 10 * SECOND), st.integers(0, SECOND), st.integers(0, SECOND), st.integers(1, 50))
def test_later_time_never_gives_an_earlier_start_or_fewer_tokens(
    rate: Rate, tat: int, now: int, later: int, place: int
) -> None:
    assert rules.starts(tat, now, rate, place) < rules.starts(tat, now, rate, place + 1)
    if tat <= now + rate.span_ns + rules.FURTHEST_NS:
        assert rules.starts(tat, now + later, rate, place) >= rules.starts(tat, now, rate, place)
        assert rules.most_until(tat, now + later, now + later, rate) >= rules.most_until(tat, now, now, rate)


@given(rates(), st.integers(0, 200), st.integers(0, LONGEST_PER_MS * NS_PER_MS))
def test_clock_set_back_gives_no_extra_starts(rate: Rate, wanted: int, back: int) -> None:
    limiter, now = Limiter(rate), 10**18
    before = limiter.ask(now, wanted, 0)
    assert before + limiter.ask(now - back, MOST, 0) <= rate.burst
    assert rules.starts(limiter.tat, now - back, rate, 1) <= now - back + 2 * rate.per_ns + rate.span_ns


@given(rates(), st.integers(0, 10 * SECOND), st.integers(0, SECOND), st.integers(0, SECOND))
def test_number_of_starts_until_an_instant_agrees_with_the_start_times(
    rate: Rate, tat: int, now: int, ahead: int
) -> None:
    fits = rules.most_until(tat, now, now + ahead, rate)
    assert rules.starts(tat, now, rate, fits + 1) > now + ahead
    if fits:
        assert rules.starts(tat, now, rate, fits) <= now + ahead
