"""Actors: the registry of the user's actors and of the processes that run them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Chore, ChoreContext, Command, Resource, WaitingReason


class Actors(Feature):
    name = "actors"

    def resources(self) -> "Sequence[Resource]":
        from app.features.actors import api

        return [api.resource]

    def commands(self) -> "Sequence[Command]":
        from app.features.actors import cli

        return [cli.group]

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.actors import chores

        return chores.chores(context)

    def reasons(self) -> "Sequence[WaitingReason]":
        from app.features.actors.reasons import ActorReason

        return [ActorReason()]
