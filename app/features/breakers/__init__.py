"""Breakers: a target whose deliveries keep failing is left alone for a while."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.scheduler.chore import Chore, ChoreContext
    from app.web.openapi.resource import Resource


class Breakers(Feature):
    """Breakers: a target whose deliveries keep failing is left alone for a while."""

    name = "breakers"

    def resources(self) -> "Sequence[Resource]":
        from app.features.breakers import api

        return [api.resource]

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.breakers import chores

        return chores.chores(context)
