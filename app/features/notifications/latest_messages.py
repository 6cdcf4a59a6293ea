"""Latest message of each notification rule, sent or waiting, by one statement."""

from typing import Any

from app.features.notifications.api import shape_stored
from app.kernel.db import Database
from app.kernel.sql import statement
from app.kernel.unreadable import readable

LATEST = statement(
    "notifications.latest_messages",
    """
    SELECT g.rule, g.group_id, g.told, g.waits_for, g.waits_until, g.opened_at, g.closed_at, g.messages
      FROM notification_rules AS r
     CROSS JOIN LATERAL (
       SELECT rule, group_id, told, waits_for, waits_until, opened_at, closed_at, messages FROM notification_groups
        WHERE rule = r.name ORDER BY opened_at DESC, group_id DESC LIMIT 1) AS g
     ORDER BY g.rule
    """,
)


def latest_messages(database: Database) -> dict[str, dict[str, Any]]:
    """Return the latest message by the name of its rule."""
    rows = database.fetch(LATEST)
    return dict(readable(lambda row: (row.rule, shape_stored(row)), rows, "group {.group_id}".format))
