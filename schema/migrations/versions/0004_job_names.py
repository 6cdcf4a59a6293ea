"""Names and labels of jobs.

Both are NULL on the jobs that are there, so neither index has to read anything of them but that.
"""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the columns, then their indexes; each step may be repeated."""
    online.add_column("jobs", "name", "TEXT")
    online.add_column("jobs", "labels", "JSONB")
    online.create_index("idx_jobs_name", "jobs", ["name", "created_at", "job_id"], where="name IS NOT NULL")
    online.create_index("idx_jobs_labels", "jobs", ["labels"], using="gin", where="labels IS NOT NULL")


def downgrade() -> None:
    """Drop them; names and labels are lost."""
    for index in ("idx_jobs_labels", "idx_jobs_name"):
        online.drop_index(index)
    for column in ("labels", "name"):
        op.execute(text(f"ALTER TABLE jobs DROP COLUMN IF EXISTS {column}"))
