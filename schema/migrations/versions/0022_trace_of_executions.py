"""Trace of executions: what is asked for by hand, or retried by hand, goes on in the trace of that request."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add the column; processes that do not know it leave it NULL, which says that the job's trace counts."""
    online.add_column("executions", "trace_context", "TEXT")


def downgrade() -> None:
    """Drop it; executions are in the traces of their jobs again."""
    op.execute(text("ALTER TABLE executions DROP COLUMN IF EXISTS trace_context"))
