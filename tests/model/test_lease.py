"""The lease protocol in every possible order of its steps, and the need for each of its rules."""

from dataclasses import replace
from functools import partial

import pytest

from tests.model.lease import Rules, State, breach_of, steps
from tests.model.search import Result, explore


def check(**changes: bool) -> Result[State]:
    return explore(State(), partial(steps, rules=replace(Rules(), **changes)), breach_of)


def test_every_reachable_state_keeps_the_invariants() -> None:
    found = check()
    assert found.breach is None, "\n".join((found.breach, *found.trace))
    assert found.states == 66_188, "the number of states has changed: update it if the model was changed on purpose"


@pytest.mark.parametrize(
    ("rule", "breach"),
    [
        ("fence_attempt", "a stale write took effect"),
        ("fence_instant", "a stale write took effect"),
        ("reclaim_needs_lost_lease", "two workers with a valid lease hold the execution"),
        ("expired_lease_stays_expired", "two workers with a valid lease hold the execution"),
        ("claim_needs_lease", "claimed without a lease"),
        ("second_chance", "the first lost worker ends the execution"),
    ],
)
def test_protocol_breaks_without_this_rule(rule: str, breach: str) -> None:
    found = check(**{rule: False})
    assert found.breach == breach
    assert found.trace, "a breach without the steps that lead to it"


def test_worker_condition_of_the_fence_is_redundant() -> None:
    """The other conditions imply the worker: an attempt number repeats only after a release, fenced by its instant."""
    assert check(fence_worker=False).breach is None
