"""Examination: runs checks in their order, until one finds that the rest would only fail."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.feature import Feature
from app.kernel.function_types import Counted, uncounted
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import SAFETY_NETS, Check, Finding, OutOfTimeError, SafetyNet


@dataclass(slots=True)
class Examination:
    """Findings, and the names of the checks that the time did not suffice for."""

    findings: list[Finding] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)


def checks(features: Sequence[Feature]) -> list[Check]:
    return [*(check for feature in features for check in feature.checks()), *SAFETY_NETS]


def examine(context: ChoreContext, wanted: Sequence[Check], advance: Counted = uncounted) -> Examination:
    """Run checks until the context stops; calls `advance` with 1 after each check."""
    done = Examination()
    for check in wanted:
        try:
            done.findings += () if context.stopping() else check(context)
            is_finished = not context.stopping()
        except OutOfTimeError:
            is_finished = False
        if not is_finished:
            done.unfinished.append(_name(check))
        advance(1)
        if any(each.ends for each in done.findings):
            break
    return done


def _name(check: Check) -> str:
    name = type(check).__name__ if isinstance(check, SafetyNet) else getattr(check, "__name__", "check")
    return name.lower().replace("_", " ")
