"""Trace context: the trace that a job was created in goes on in its deliveries."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Add the column; processes that do not know it write NULL, which says that there is none."""
    online.add_column("jobs", "trace_context", "TEXT")


def downgrade() -> None:
    """Drop it; deliveries have traces of their own again."""
    op.execute(text("ALTER TABLE jobs DROP COLUMN IF EXISTS trace_context"))
