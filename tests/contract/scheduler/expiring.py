"""What makes executions wait, and what is asked for those that wait for too long."""

from typing import Any

from sqlalchemy import event

from app.kernel.db import Database

RULES = {
    "limits": "UPDATE endpoints SET limits = '{\"max_in_flight\": 1}' WHERE name = :name",
    "a pause": "UPDATE endpoints SET paused_at = now() WHERE name = :name",
    "a pause of its queue": "INSERT INTO paused_queues (queue, paused_by) VALUES ('http', :name)",
    "an open breaker": (
        "WITH b AS (INSERT INTO breakers (target, state, open_until, watched_until) "
        "VALUES ('t', 'open', now() + INTERVAL '1 minute', now()) RETURNING target) "
        "INSERT INTO breaker_endpoints (target, endpoint) SELECT b.target, :name FROM b"
    ),
}


def waits_asked_for(database: Database, part: str = "AS passed") -> list[str]:
    """Note each statement with that part from now on: each page of a lane that is read."""
    asked: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if part in statement:
            asked.append(statement)

    return asked
