"""Queues: pause and resume a queue; routes from endpoints to queues."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import AdmissionRule, Check, Command, FlowRules, Resource


class Queues(Feature):
    name = "queues"

    def resources(self) -> "Sequence[Resource]":
        from app.features.queues import api, routes_api

        return [api.resource, routes_api.resource, routes_api.dry_runs]

    def admission(self, rules: "FlowRules", capacity: int) -> "Sequence[AdmissionRule]":  # noqa: ARG002
        from app.features.queues.admission import PauseAdmission

        return [PauseAdmission(rules)]

    def commands(self) -> "Sequence[Command]":
        from app.features.queues import cli

        return [cli.group]

    def checks(self) -> "Sequence[Check]":
        from app.features.queues import checks

        return [checks.queues]
