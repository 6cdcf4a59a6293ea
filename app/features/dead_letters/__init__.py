"""Dead letters: failed executions, listed until somebody retries, redrives or archives them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Check, Chore, ChoreContext, Command, Resource


class DeadLetters(Feature):
    name = "dead_letters"

    def resources(self) -> "Sequence[Resource]":
        from app.features.dead_letters import groups_api, redrives_api

        return [groups_api.resource, redrives_api.resource, redrives_api.dry_runs]

    def commands(self) -> "Sequence[Command]":
        from app.features.dead_letters import cli

        return [cli.group, cli.redrives_group]

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.dead_letters.redrives import RedriveJob
        from app.scheduler.bulk_chore import bulk_chores

        return bulk_chores("redrives", RedriveJob(context.creator()), context)

    def checks(self) -> "Sequence[Check]":
        from app.features.dead_letters import checks

        return [checks.late_ends]
