"""Actors that a process of a user has, but may not run."""

from schema import online

revision = "0122"
down_revision = "0121"


def upgrade() -> None:
    online.add_column("actor_processes", "refused", "JSONB NOT NULL DEFAULT '{}'")
