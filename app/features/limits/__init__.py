"""Limits: bounds on the running executions and start rate of endpoints and keys."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import AdmissionRule, Chore, ChoreContext, FlowRules, Resource, WaitingReason


class Limits(Feature):
    name = "limits"

    def resources(self) -> "Sequence[Resource]":
        from app.features.limits import api

        return [api.resource]

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.limits import chores

        return chores.chores(context)

    def admission(self, rules: "FlowRules", capacity: int) -> "Sequence[AdmissionRule]":
        from app.features.limits.admission import LimitAdmission

        return [LimitAdmission(rules, capacity)]

    def reasons(self) -> "Sequence[WaitingReason]":
        from app.features.limits.reasons import LimitReason

        return [LimitReason()]
