"""Deadlines of workflows as durations: a retry starts the deadline again."""

from schema import online

revision = "0109"
down_revision = "0107"


def upgrade() -> None:
    online.add_column("workflows", "deadline_ms", "BIGINT")
