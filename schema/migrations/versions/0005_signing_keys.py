"""Signing keys: what web processes sign cursors with."""

from alembic import op
from sqlalchemy import text

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the table; the step may be repeated."""
    op.execute(
        text(
            "CREATE TABLE IF NOT EXISTS signing_keys (purpose TEXT NOT NULL, key BYTEA NOT NULL, "
            "created_at TIMESTAMPTZ DEFAULT now() NOT NULL, CONSTRAINT pk_signing_keys PRIMARY KEY (purpose))"
        )
    )


def downgrade() -> None:
    """Drop it; cursors that were handed out are refused from then on."""
    op.execute(text("DROP TABLE IF EXISTS signing_keys"))
