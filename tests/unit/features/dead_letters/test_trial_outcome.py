"""Outcome of a trial: it is decided as soon as nothing can change it."""

from app.features.dead_letters.trial import TrialOutcome
from tests.cases import each_case


@each_case(
    ("succeeded", "failed", "verdict"),
    [(0, 0, None), (8, 1, None), (9, 0, True), (9, 1, True), (0, 1, None), (0, 2, False), (8, 2, False)],
)
def test_nine_of_ten_are_needed(succeeded: int, failed: int, verdict: bool | None) -> None:
    assert TrialOutcome(10, succeeded, failed).verdict(10, 9) is verdict


def test_result_names_the_error() -> None:
    assert TrialOutcome(10, 8, 2, "TIMEOUT").result(9) == "8 of 10 trials succeeded, 2 failed: TIMEOUT; 9 were needed"
    assert TrialOutcome(3, 3, 0).result(3) == "3 of 3 trials succeeded, none failed; 3 were needed"
