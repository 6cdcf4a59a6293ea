"""The end of two parents in every possible order of all statements, and the need for each rule of the advance."""

from dataclasses import replace
from functools import partial

import pytest

from tests.cases import each_case
from tests.model.search import Result, explore
from tests.model.workflow import Rules, State, breach_of, steps


def check(*, without: tuple[str, ...] = ()) -> Result[State]:
    rules = replace(Rules(), **dict.fromkeys(without, False))
    return explore(State(), partial(steps, rules=rules), partial(breach_of, rules=rules))


def test_child_of_two_ends_starts_once_whichever_process_dies() -> None:
    found = check()
    assert found.breach is None, "\n".join((found.breach, *found.trace))
    assert found.states == 3_523, "the number of states has changed: update it if the model was changed on purpose"


@each_case(
    "spare",
    [
        ("locks",),  # the revision keeps two steps apart
        ("checks_revision",),  # the lock keeps two steps apart
        ("has_key",),  # behind the revision
        ("dies", "has_chore"),  # only a lost process needs a scheduler
        ("compares",),  # an end is settled in the transaction that takes its event
        ("settles_with_event",),  # the chore compares running nodes with their executions
    ],
)
def test_rule_has_a_second_line_of_defence(spare: tuple[str, ...]) -> None:
    assert check(without=spare).breach is None


@pytest.mark.parametrize(
    ("without", "breach"),
    [
        (("locks", "checks_revision"), "the child's count is wrong"),
        (("dies", "has_chore", "looks_again"), "the child never starts"),
        (("has_chore",), "the child never starts"),
        (("settles_running_only",), "the child started before both ends were reported"),
        (("settles_with_event", "compares"), "the child never starts"),
    ],
)
def test_child_is_missed_without_these_rules(without: tuple[str, ...], breach: str) -> None:
    found = check(without=without)
    assert found.breach == breach, found.trace
    assert found.trace
