"""Dead letters: failed executions, listed until somebody retries, redrives or archives them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    import click

    from app.scheduler.chore import Chore, ChoreContext
    from app.scheduler.finding import Check
    from app.web.openapi.resource import Resource


class DeadLetters(Feature):
    """Dead letters: failed executions, listed until somebody retries, redrives or archives them."""

    name = "dead_letters"

    def resources(self) -> "Sequence[Resource]":
        from app.features.dead_letters import api, redrives_api

        return [api.resource, redrives_api.resource, redrives_api.questions]

    def commands(self) -> "Sequence[click.Command]":
        from app.features.dead_letters import cli, redrives_cli

        return [cli.group, redrives_cli.group]

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.dead_letters import chores

        return chores.chores(context)

    def checks(self) -> "Sequence[Check]":
        from app.features.dead_letters import checks

        return [checks.late_ends]
