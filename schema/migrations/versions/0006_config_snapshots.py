"""Configs as they were when an execution began.

An execution that had begun before has no revision, and gets one with its next claim.
"""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add a table and a column; each step may be repeated."""
    op.execute(
        text(
            """
            CREATE TABLE IF NOT EXISTS superseded_configs (
                name TEXT NOT NULL,
                superseded_by BIGINT NOT NULL,
                values_json JSONB NOT NULL,
                superseded_at TIMESTAMPTZ DEFAULT now() NOT NULL,
                CONSTRAINT pk_superseded_configs PRIMARY KEY (name, superseded_by)
            )
            """
        )
    )
    online.add_column("executions", "config_revision", "BIGINT")


def downgrade() -> None:
    """Drop them; attempts then use configs as they are."""
    op.execute(text("ALTER TABLE executions DROP COLUMN IF EXISTS config_revision"))
    op.execute(text("DROP TABLE IF EXISTS superseded_configs"))
