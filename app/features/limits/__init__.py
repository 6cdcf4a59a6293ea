"""Limits: how many executions of an endpoint or key run at once, and how many start in a time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.queue.claiming.admission import AdmissionRule
    from app.queue.claiming.known_rules import FlowRules
    from app.scheduler.chore import Chore, ChoreContext


class Limits(Feature):
    """Limits: how many executions of an endpoint or key run at once, and how many start in a time."""

    name = "limits"

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.limits import chores

        return chores.chores(context)

    def admission(self, rules: "FlowRules", capacity: int) -> "Sequence[AdmissionRule]":
        from app.features.limits.admission import LimitAdmission

        return [LimitAdmission(rules, capacity)]
