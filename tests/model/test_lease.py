"""The lease protocol in every order that its steps can come in, and what each of its rules is for."""

from dataclasses import replace
from functools import partial

import pytest

from tests.model.lease import Rules, State, breach_of, steps
from tests.model.search import Result, explore


def check(**changes: bool) -> Result[State]:
    return explore(State(), partial(steps, rules=replace(Rules(), **changes)), breach_of)


def test_it_holds_in_every_state() -> None:
    found = check()
    assert found.breach is None, "\n".join((found.breach, *found.trace))
    assert found.states == 66_188, "a model that changes its size was changed: say so here"


@pytest.mark.parametrize(
    ("rule", "breach"),
    [
        ("fence_attempt", "a stale write took effect"),
        ("fence_instant", "a stale write took effect"),
        ("reclaim_needs_lost_lease", "two workers with a valid lease hold it"),
        ("expired_lease_stays_expired", "two workers with a valid lease hold it"),
        ("claim_needs_lease", "claimed without a lease"),
        ("second_chance", "the first lost worker ends it"),
    ],
)
def test_without_a_rule_it_breaks(rule: str, breach: str) -> None:
    found = check(**{rule: False})
    assert found.breach == breach
    assert found.trace, "the way there is told"


def test_the_worker_in_the_fence_is_a_safety_net() -> None:
    """Attempt numbers repeat only after a hand-back, which is fenced by its instant: the rest implies the worker."""
    assert check(fence_worker=False).breach is None
