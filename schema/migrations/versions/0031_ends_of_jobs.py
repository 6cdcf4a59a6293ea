"""Ends of repeating jobs, as events; the index of attempts by time is of their instants alone."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    """Add columns and indexes; what ended before is not told."""
    online.add_column("jobs", "ended_at", "TIMESTAMPTZ")
    online.add_column("jobs", "end_reason", "TEXT")
    online.create_index(
        "idx_jobs_ends", "jobs", ["ended_at", "job_id"], where="ended_at IS NOT NULL", leads_with_time=True
    )
    online.create_index("idx_attempts_created", "attempts", ["created_at"], leads_with_time=True)
    online.drop_index("idx_attempts_time")


def downgrade() -> None:
    """Take it back."""
    online.create_index("idx_attempts_time", "attempts", ["created_at", "attempt_id"], leads_with_time=True)
    online.drop_index("idx_attempts_created")
    online.drop_index("idx_jobs_ends")
    op.execute(text("ALTER TABLE jobs DROP COLUMN IF EXISTS end_reason"))
    op.execute(text("ALTER TABLE jobs DROP COLUMN IF EXISTS ended_at"))
