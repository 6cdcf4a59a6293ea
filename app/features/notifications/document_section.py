"""Section `notification_rules` of the catalog document."""

from collections.abc import Collection, Mapping
from typing import Any

from app.catalog.named_table import Named
from app.cli.catalog_section import CatalogSection
from app.cli.exit_statuses import CommandError
from app.features.notifications import store
from app.features.notifications.api import value_of
from app.features.notifications.schemas import ChangedNotificationRuleSchema
from app.kernel.audit.change import AuditedChange
from app.kernel.db import Database


class RuleSection(CatalogSection):
    """Notification rules by their names, without their defaults."""

    key = "notification_rules"
    table = store.RULES
    schema = ChangedNotificationRuleSchema

    def stored_value(self, loaded: dict[str, Any]) -> Mapping[str, Any]:
        return store.without_defaults(value_of(loaded))

    def check(self, name: str, value: Mapping[str, Any], endpoints: Collection[str]) -> None:
        """Check a rule; raise CommandError for a channel that is not among the endpoints."""
        for index, channel in enumerate(value["channels"]):
            if channel not in endpoints:
                where = f"/notification_rules/{name}/channels/{index}"
                raise CommandError(f"{where}: there is no endpoint named {channel!r}")
        store.check(name, value)

    def create(self, database: Database, name: str, value: Mapping[str, Any], change: AuditedChange) -> Named:
        return store.create(database, name, value, change)

    def replace(self, database: Database, name: str, value: Mapping[str, Any], change: AuditedChange) -> Named:
        return store.replace(database, name, value, change)
