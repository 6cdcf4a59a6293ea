"""Workflows: graphs of jobs."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from app.feature import Feature
from schema.states import EndpointType

if TYPE_CHECKING:
    import click

    from app.catalog.check_spec import SpecCheck
    from app.kernel.db import Database
    from app.kernel.function_types import Hint, WrittenEvents
    from app.queue.ending.handler import Handler
    from app.queue.executions.handover import Starter
    from app.scheduler.chore import Chore, ChoreContext
    from app.scheduler.finding import Check
    from app.web.openapi.resource import Resource


class Workflows(Feature):
    """Graphs of jobs: each node starts once, when the nodes before it are through."""

    name = "workflows"

    def resources(self) -> "Sequence[Resource]":
        from app.features.workflows import api, control_api, metrics, topology_api

        metrics.begin()
        modules = (api, control_api, topology_api)
        return [*dict.fromkeys(module.resource for module in modules)]

    def commands(self) -> "Sequence[click.Command]":
        from app.features.workflows import cli

        return [cli.group]

    def handlers(self) -> "Sequence[Handler]":
        from app.features.workflows import handlers, metrics

        metrics.begin()
        return [handlers.WORKFLOWS]

    def starters(self, database: "Database", hint: "Hint", submit: "WrittenEvents") -> "Mapping[EndpointType, Starter]":
        def start(execution_id: str, attempt: int, spec: "Mapping[str, Any]") -> None:
            # Few workers start workflows, and the schemas of definitions are slow to import.
            from app.features.workflows.execution_start import WorkflowStarter

            WorkflowStarter(database, hint, submit)(execution_id, attempt, spec)

        return {EndpointType.WORKFLOW: start}

    def spec_checks(self) -> "Mapping[EndpointType, SpecCheck]":
        from app.features.workflows import definitions

        return {EndpointType.WORKFLOW: definitions.check}

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.workflows import chores, gauges

        return [*chores.chores(context), *gauges.chores(context)]

    def checks(self) -> "Sequence[Check]":
        from app.features.workflows import checks

        return [checks.late_nodes, checks.standing_workflows]
