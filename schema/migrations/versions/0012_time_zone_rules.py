"""The time zone rules by which the next runs of cron jobs were computed."""

from alembic import op
from sqlalchemy import text

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Create the table; each step may be repeated."""
    op.execute(
        text(
            "CREATE TABLE IF NOT EXISTS time_zone_rules (id TEXT NOT NULL, digest TEXT NOT NULL, "
            "updated_at TIMESTAMPTZ DEFAULT now() NOT NULL, CONSTRAINT pk_time_zone_rules PRIMARY KEY (id))"
        )
    )


def downgrade() -> None:
    """Drop it; next runs then stay where they are when the rules change."""
    op.execute(text("DROP TABLE IF EXISTS time_zone_rules"))
