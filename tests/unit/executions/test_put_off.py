"""Delay of an execution that its worker cannot run."""

from datetime import timedelta
from itertools import pairwise

from app.queue.claiming.release import MAX_DEFERRAL_MS, MIN_DEFERRAL_MS, defer_ms


def test_delay_grows_with_the_age_of_an_execution_up_to_a_maximum() -> None:
    ages = [timedelta(seconds=-1), timedelta(0), *(timedelta(seconds=10 * 2**n) for n in range(20))]
    delays = [defer_ms(age) for age in ages]
    assert delays[:2] == [MIN_DEFERRAL_MS] * 2
    assert all(earlier <= later for earlier, later in pairwise(delays))
    assert len(set(delays)) > 5
    assert delays[-1] == MAX_DEFERRAL_MS
