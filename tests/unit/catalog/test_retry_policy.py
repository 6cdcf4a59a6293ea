"""Retry policies: delays are capped before the jitter is added."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.catalog.retry_policy import (
    BACKOFFS,
    MAX_DELAY_MS,
    MAX_RETRY_AFTER_MS,
    RETRY_POLICY,
    Backoff,
    RetryPolicy,
    delay_ms,
)

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("backoff", "expected"),
    [("fixed", [1000, 1000, 1000]), ("linear", [1000, 2000, 3000]), ("exponential", [1000, 2000, 4000])],
)
def test_delay_without_jitter_is_the_delay_of_the_policy(backoff: Backoff, expected: list[int]) -> None:
    policy = RetryPolicy(max_attempts=5, backoff=backoff, initial_delay_ms=1000, max_delay_ms=60_000)
    assert [delay_ms(policy, attempt, 0.0) for attempt in (1, 2, 3)] == expected


def test_custom_delays_are_used_in_turn_and_the_last_one_repeats() -> None:
    policy = RetryPolicy(backoff="custom", delays_ms=(100, 5000, 120_000))
    assert [delay_ms(policy, attempt, 0.0) for attempt in (1, 2, 3, 4, 99)] == [100, 5000, 120_000, 120_000, 120_000]


@given(
    attempt=st.integers(1, 10**6),
    initial=st.integers(0, 86_400_000),
    cap=st.integers(0, 86_400_000),
    spread=st.floats(-1, 1),
    backoff=st.sampled_from(["fixed", "linear", "exponential", "decorrelated"]),
    seed=st.text(),
)
def test_delay_never_leaves_its_bounds(
    attempt: int, initial: int, cap: int, spread: float, backoff: Backoff, seed: str
) -> None:
    policy = RetryPolicy(backoff=backoff, initial_delay_ms=initial, max_delay_ms=cap)
    assert 0 <= delay_ms(policy, attempt, spread, seed=seed) <= cap


@given(
    delays=st.lists(st.integers(0, MAX_DELAY_MS), min_size=1, max_size=100),
    attempt=st.integers(1, 10**6),
    spread=st.floats(-1, 1),
)
def test_custom_delay_stays_within_a_quarter_and_a_day(delays: list[int], attempt: int, spread: float) -> None:
    wanted = delays[min(attempt, len(delays)) - 1]
    delay = delay_ms(RetryPolicy(backoff="custom", delays_ms=tuple(delays)), attempt, spread)
    assert wanted - wanted // 4 <= delay <= min(wanted + wanted // 4, MAX_DELAY_MS)


@given(
    attempt=st.integers(1, 10**6),
    initial=st.integers(0, 86_400_000),
    cap=st.integers(0, 86_400_000),
    backoff=st.sampled_from(["fixed", "linear", "exponential"]),
)
def test_with_equal_jitter_a_later_attempt_never_waits_less(
    attempt: int, initial: int, cap: int, backoff: Backoff
) -> None:
    policy = RetryPolicy(backoff=backoff, initial_delay_ms=initial, max_delay_ms=cap)
    for spread in (-1.0, 0.0, 1.0):
        assert delay_ms(policy, attempt, spread) <= delay_ms(policy, attempt + 1, spread)


@given(seed=st.text(), initial=st.integers(1, 10_000), attempt=st.integers(1, 60))
def test_decorrelated_delays_are_a_chain_from_the_base_on(seed: str, initial: int, attempt: int) -> None:
    """Each delay lies between the base and three times the delay before, and depends on the seed alone."""
    policy = RetryPolicy(backoff="decorrelated", initial_delay_ms=initial, max_delay_ms=MAX_DELAY_MS)
    before = initial if attempt == 1 else delay_ms(policy, attempt - 1, 0.0, seed=seed)
    delay = delay_ms(policy, attempt, 0.0, seed=seed)
    assert initial <= delay <= min(3 * before + 3, MAX_DELAY_MS)
    assert delay == delay_ms(policy, attempt, 0.9, seed=seed)


def test_decorrelated_delays_differ_between_executions() -> None:
    policy = RetryPolicy(backoff="decorrelated")
    assert len({delay_ms(policy, 3, 0.0, seed=f"exec_{number}") for number in range(50)}) > 40


def test_jitter_still_spreads_at_the_cap() -> None:
    policy = RetryPolicy(initial_delay_ms=1000, max_delay_ms=8000)
    assert delay_ms(policy, 50, -1.0) == 6000
    assert delay_ms(policy, 50, 1.0) == 8000


def test_retry_after_lengthens_the_wait_and_never_shortens_it() -> None:
    policy = RetryPolicy(initial_delay_ms=1000)
    assert delay_ms(policy, 1, 0.0, retry_after_ms=5000) == 5000
    assert delay_ms(policy, 1, 0.0, retry_after_ms=10) == 1000
    assert delay_ms(policy, 1, 0.0, retry_after_ms=10**12) == MAX_RETRY_AFTER_MS


def test_absent_fields_take_the_defaults() -> None:
    assert RetryPolicy.from_json(None) == RetryPolicy(1, "exponential", 1000, 60_000)
    assert RetryPolicy.from_json({"max_attempts": 4}).max_attempts == 4


@pytest.mark.parametrize(("cap", "initial"), [(0, 0), (500, 500), (1000, 1000), (60_000, 1000)])
def test_default_initial_delay_is_at_most_a_given_cap(cap: int, initial: int) -> None:
    assert RetryPolicy.from_json({"max_delay_ms": cap}).as_json()["initial_delay_ms"] == initial


def test_policy_is_written_as_it_was_read() -> None:
    plain = {"max_attempts": 4, "backoff": "fixed", "initial_delay_ms": 5, "max_delay_ms": 6}
    assert RetryPolicy.from_json(plain).as_json() == plain
    added = plain | {"backoff": "custom", "delays_ms": [1, 2], "fail_on": [401, "TIMEOUT"], "max_age_ms": 9}
    assert RetryPolicy.from_json(added).as_json() == added
    matcher = {"pointer": "/ok", "in": [False, 0], "status": "2xx"}
    named = plain | {"fail_on": [matcher], "reject_on": ["4xx"], "ignore_on": [404], "retry_on": ["TIMEOUT"]}
    assert RetryPolicy.from_json(named).as_json() == named
    assert RetryPolicy.from_json(plain | {"max_age_ms": None, "fail_on": []}).as_json() == plain


def test_every_field_is_read_and_written() -> None:
    """If it fails, add the field to RetryPolicy."""
    assert set(RetryPolicy.__dataclass_fields__) - {"reads_answers"} == RETRY_POLICY.fields.keys()


def test_te_send_accepts_every_field_and_backoff() -> None:
    """If it fails, add the field or the backoff to te_policy_fault, in schema/functions/te_send.sql."""
    text = (ROOT / "schema" / "functions" / "te_send.sql").read_text()
    for pattern, names in (
        (r"f\.field NOT IN \((.*?)\)", RETRY_POLICY.fields),
        (r"'backoff' NOT IN \((.*?)\)", BACKOFFS),
    ):
        listed = re.search(pattern, text, re.DOTALL)
        assert listed is not None
        assert set(re.findall(r"\w+", listed[1])) == set(names)


def test_page_describes_every_field_and_backoff() -> None:
    """If it fails, describe the field or the backoff in docs/reference/api.md."""
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    section = page.partition("\n## Retry policy\n")[2].partition("\n## ")[0]
    assert [name for name in (*RETRY_POLICY.fields, *BACKOFFS) if f"`{name}`" not in section] == []
