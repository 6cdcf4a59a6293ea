"""Results: deletion of the outcome of executions, earlier than the executions."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Chore, ChoreContext


class Results(Feature):
    name = "results"

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.results import chores

        return chores.chores(context)
