"""Backoff: the brief's formula, capped before the jitter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.executions.backoff import MAX_RETRY_AFTER_MS, Backoff, RetryPolicy, delay_ms


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [("fixed", [1000, 1000, 1000]), ("linear", [1000, 2000, 3000]), ("exponential", [1000, 2000, 4000])],
)
def test_the_middle_of_the_spread_is_the_briefs_delay(backoff: Backoff, expected: list[int]) -> None:
    policy = RetryPolicy(max_attempts=5, backoff=backoff, initial_delay_ms=1000, max_delay_ms=60_000)
    assert [delay_ms(policy, attempt, 0.0) for attempt in (1, 2, 3)] == expected


@given(
    attempt=st.integers(1, 10**6),
    initial=st.integers(0, 86_400_000),
    cap=st.integers(0, 86_400_000),
    spread=st.floats(-1, 1),
    backoff=st.sampled_from(["fixed", "linear", "exponential"]),
)
def test_the_delay_never_leaves_its_bounds(
    attempt: int, initial: int, cap: int, spread: float, backoff: Backoff
) -> None:
    policy = RetryPolicy(backoff=backoff, initial_delay_ms=initial, max_delay_ms=cap)
    assert 0 <= delay_ms(policy, attempt, spread) <= cap


def test_the_jitter_still_spreads_at_the_cap() -> None:
    policy = RetryPolicy(initial_delay_ms=1000, max_delay_ms=8000)
    assert delay_ms(policy, 50, -1.0) == 6000
    assert delay_ms(policy, 50, 1.0) == 8000


def test_retry_after_lengthens_the_wait_and_never_shortens_it() -> None:
    policy = RetryPolicy(initial_delay_ms=1000)
    assert delay_ms(policy, 1, 0.0, retry_after_ms=5000) == 5000
    assert delay_ms(policy, 1, 0.0, retry_after_ms=10) == 1000
    assert delay_ms(policy, 1, 0.0, retry_after_ms=10**12) == MAX_RETRY_AFTER_MS


def test_absent_fields_take_the_briefs_defaults() -> None:
    assert RetryPolicy.from_json(None) == RetryPolicy(1, "exponential", 1000, 60_000)
    assert RetryPolicy.from_json({"max_attempts": 4}).max_attempts == 4
