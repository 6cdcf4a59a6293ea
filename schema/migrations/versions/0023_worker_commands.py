"""Commands to worker processes, which come to them with their heartbeats."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Make a table that is empty at first; workers that do not know it carry nothing out, and their commands expire."""
    op.execute(
        text(
            "CREATE TABLE IF NOT EXISTS worker_commands (command_id TEXT NOT NULL, worker_id TEXT NOT NULL, "
            "command TEXT NOT NULL, asked_by TEXT NOT NULL, asked_at TIMESTAMPTZ DEFAULT now() NOT NULL, "
            "expires_at TIMESTAMPTZ NOT NULL, acknowledged_at TIMESTAMPTZ, "
            "CONSTRAINT pk_worker_commands PRIMARY KEY (command_id))"
        )
    )
    online.create_index("idx_worker_commands_worker", "worker_commands", ["worker_id", "asked_at", "command_id"])


def downgrade() -> None:
    """Forget them."""
    op.execute(text("DROP TABLE IF EXISTS worker_commands"))
