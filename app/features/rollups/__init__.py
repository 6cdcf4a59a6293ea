"""Rollups: deliveries counted by endpoint and slot of time, for charts and lists of endpoints."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Chore, ChoreContext, Command, Resource


class Rollups(Feature):
    name = "rollups"

    def resources(self) -> "Sequence[Resource]":
        from app.features.rollups import api

        return [api.resource]

    def commands(self) -> "Sequence[Command]":
        from app.features.rollups import cli

        return [cli.stats_command]

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.rollups import chores

        return chores.chores(context)
