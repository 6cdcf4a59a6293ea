"""Names and labels of jobs.

Both are NULL on the jobs that are there, so neither index has to read anything of them but that.
"""

from alembic import op
from sqlalchemy import text

revision = "0004"
down_revision = "0003"

STATEMENTS = [
    "ALTER TABLE jobs ADD COLUMN IF NOT EXISTS name TEXT",
    "ALTER TABLE jobs ADD COLUMN IF NOT EXISTS labels JSONB",
    "CREATE INDEX IF NOT EXISTS idx_jobs_name ON jobs (name, created_at, job_id) WHERE name IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS idx_jobs_labels ON jobs USING gin (labels) WHERE labels IS NOT NULL",
]


def upgrade() -> None:
    """Add the columns, then their indexes; each statement may be repeated."""
    for statement in STATEMENTS:
        op.execute(text(statement))


def downgrade() -> None:
    """Drop them; names and labels are lost."""
    for index in ("idx_jobs_labels", "idx_jobs_name"):
        op.execute(text(f"DROP INDEX IF EXISTS {index}"))
    for column in ("labels", "name"):
        op.execute(text(f"ALTER TABLE jobs DROP COLUMN IF EXISTS {column}"))
