"""Control: statistics of queues, held endpoints, workers and deliveries, and steering of workers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import Check, Chore, ChoreContext, Command, Resource


class Control(Feature):
    name = "control"

    def resources(self) -> "Sequence[Resource]":
        from app.features.control import endpoint_states_api, processes_api, schedulers_api, stats_api, workers_api

        modules = (workers_api, schedulers_api, processes_api, stats_api, endpoint_states_api)
        return [*(module.resource for module in modules), stats_api.operational]

    def commands(self) -> "Sequence[Command]":
        from app.features.control import cli

        return [cli.workers_command, cli.status_command]

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.control import chores

        return chores.chores(context)

    def checks(self) -> "Sequence[Check]":
        from app.features.control import checks

        return [checks.each_process, checks.time_zone_rules, checks.schedulers]
