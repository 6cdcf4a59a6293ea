"""Breakers: suspend deliveries to targets that keep failing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Chore, ChoreContext, Resource, WaitingReason


class Breakers(Feature):
    name = "breakers"

    def resources(self) -> "Sequence[Resource]":
        from app.features.breakers import api

        return [api.resource]

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.breakers import chores

        return chores.chores(context)

    def reasons(self) -> "Sequence[WaitingReason]":
        from app.features.breakers.api import BreakerReason

        return [BreakerReason()]
