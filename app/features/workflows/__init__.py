"""Workflows: graphs of jobs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    import click

    from app.queue.ending.handler import Handler
    from app.scheduler.chore import Chore, ChoreContext
    from app.scheduler.finding import Check
    from app.web.openapi.resource import Resource


class Workflows(Feature):
    """Graphs of jobs: each node starts once, when the nodes before it are through."""

    name = "workflows"

    def resources(self) -> "Sequence[Resource]":
        from app.features.workflows import api, control_api, topology_api

        modules = (api, control_api, topology_api)
        return [*dict.fromkeys(module.resource for module in modules)]

    def commands(self) -> "Sequence[click.Command]":
        from app.features.workflows import cli

        return [cli.group]

    def handlers(self) -> "Sequence[Handler]":
        from app.features.workflows import handlers

        return [handlers.WORKFLOWS]

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.workflows import chores, gauges

        return [*chores.chores(context), *gauges.chores(context)]

    def checks(self) -> "Sequence[Check]":
        from app.features.workflows import checks

        return [checks.late_nodes, checks.standing_workflows]
