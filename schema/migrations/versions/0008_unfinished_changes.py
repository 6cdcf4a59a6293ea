"""Unfinished changes of jobs, and indexes for retries of paused jobs and for the executions of an endpoint."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create the table and the indexes; each step may be repeated."""
    op.execute(
        text(
            "CREATE TABLE IF NOT EXISTS unfinished_changes (job_id TEXT NOT NULL, change_id TEXT NOT NULL, "
            "change TEXT NOT NULL, actor TEXT, begun BOOLEAN DEFAULT false NOT NULL, "
            "running BOOLEAN DEFAULT false NOT NULL, began_at TIMESTAMPTZ DEFAULT now() NOT NULL, "
            "CONSTRAINT pk_unfinished_changes PRIMARY KEY (job_id))"
        )
    )
    online.create_index(
        "idx_executions_retrying", "executions", ["job_id", "execution_id"], where="status = 'RETRYING'"
    )
    online.create_index("idx_executions_endpoint", "executions", ["endpoint", "created_at", "execution_id"])


def downgrade() -> None:
    """Drop them; what was cut off stays as it is."""
    for index in ("idx_executions_endpoint", "idx_executions_retrying"):
        online.drop_index(index)
    op.execute(text("DROP TABLE IF EXISTS unfinished_changes"))
