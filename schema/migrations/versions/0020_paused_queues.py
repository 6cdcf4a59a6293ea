"""Paused queues: those of which workers claim nothing."""

from alembic import op
from sqlalchemy import text

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Make a table that is empty at first; workers that do not know it claim from paused queues too."""
    op.execute(
        text(
            "CREATE TABLE IF NOT EXISTS paused_queues (queue TEXT NOT NULL, "
            "paused_at TIMESTAMPTZ DEFAULT now() NOT NULL, paused_by TEXT NOT NULL, "
            "CONSTRAINT pk_paused_queues PRIMARY KEY (queue))"
        )
    )


def downgrade() -> None:
    """Forget the pauses: all queues are claimed from again."""
    op.execute(text("DROP TABLE IF EXISTS paused_queues"))
