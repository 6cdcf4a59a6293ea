"""Expiry: fail executions that waited longer than `max_age_ms` allows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Chore, ChoreContext


class Expiry(Feature):
    name = "expiry"

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.expiry import chores

        return chores.chores(context)
