"""Rules of the endpoint `target`, changed as the API does."""

import json
from typing import Any

from sqlalchemy import text

from app.kernel.db import Database
from app.queue.claiming.endpoint_rules import FlowRules

SET = text(
    "UPDATE endpoints SET limits = CAST(:limits AS JSONB), paused_at = CASE WHEN :is_paused THEN now() END "
    "WHERE name = :name"
)


BUMP = text("UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow'")


def set_rules(database: Database, limits: dict[str, Any] | None = None, *, paused: bool = False) -> None:
    """Change the rules of the endpoint `target`, as the API does."""

    def body(connection: Any) -> None:
        params = {"name": "target", "limits": None if limits is None else json.dumps(limits), "is_paused": paused}
        connection.execute(SET, params)
        connection.execute(BUMP)

    database.transact(body)


def current_rules(database: Database) -> FlowRules:
    """Return the rules as a process reads them."""
    rules = FlowRules(database)
    rules.refresh()
    return rules
