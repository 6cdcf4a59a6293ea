"""Notifications: what people are told of, as jobs of endpoints."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    import click

    from app.queue.ending.handler import Handler
    from app.scheduler.chore import Chore, ChoreContext
    from app.web.openapi.resource import Resource


class Notifications(Feature):
    """Notifications: what people are told of, as jobs of endpoints."""

    name = "notifications"

    def resources(self) -> "Sequence[Resource]":
        from app.features.notifications import api, rules_api

        return [rules_api.resource, rules_api.questions, api.resource]

    def commands(self) -> "Sequence[click.Command]":
        from app.features.notifications import cli

        return [cli.group]

    def handlers(self) -> "Sequence[Handler]":
        from app.features.notifications import handlers

        return [handlers.NOTIFICATIONS]

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.notifications import chores

        return chores.chores(context)
