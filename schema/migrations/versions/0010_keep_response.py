"""What endpoints keep of the answers to their deliveries: all, as before, for those that are there."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0010"
down_revision = "0009"

TABLES = ("endpoints", "endpoint_versions")


def upgrade() -> None:
    """Add the columns and their CHECKs; each step may be repeated."""
    for table in TABLES:
        online.add_column(table, "keep_response", "TEXT DEFAULT 'always' NOT NULL")
        online.add_check(table, f"chk_{table}_keep_response", "keep_response IN ('always', 'on_error', 'never')")


def downgrade() -> None:
    """Drop them; every answer is kept from then on."""
    for table in TABLES:
        op.execute(text(f"ALTER TABLE {table} DROP COLUMN IF EXISTS keep_response"))
