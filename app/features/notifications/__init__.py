"""Notifications: rules that report events to people through endpoints."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.feature import Feature

if TYPE_CHECKING:
    from app.feature import CatalogSection, Check, Chore, ChoreContext, Command, ConsolePage, Handler, Resource


class Notifications(Feature):
    name = "notifications"

    def resources(self) -> "Sequence[Resource]":
        from app.features.notifications import api, trial_messages_api

        return [api.rules, api.dry_runs, trial_messages_api.resource]

    def commands(self) -> "Sequence[Command]":
        from app.features.notifications import cli

        return [cli.group]

    def handlers(self) -> "Sequence[Handler]":
        from app.features.notifications import handlers

        return [handlers.NOTIFICATIONS]

    def chores(self, context: "ChoreContext") -> "Sequence[Chore]":
        from app.features.notifications import chores

        return chores.chores(context)

    def checks(self) -> "Sequence[Check]":
        from app.features.notifications import checks

        return [checks.messages, checks.OrphanedRuleRows()]

    def catalog_sections(self) -> "Sequence[CatalogSection]":
        from app.features.notifications.cli import RuleSection

        return [RuleSection()]

    def pages(self) -> "Sequence[ConsolePage]":
        from app.features.notifications.pages import notification_rule_page as rule
        from app.features.notifications.pages import notifications_page

        return [notifications_page.page, rule.rule_page, rule.edit_page, rule.new_page]
