"""Physical tuning for PostgreSQL only; CockroachDB has no vacuum and no fill factor.

Rows of queue tables die young: vacuum after two percent of dead rows instead of twenty, and leave room on each page
of `jobs` for updates in place (HOT). Retiring a job has been none since 0003, whose `idx_jobs_open` covers the status.
"""

from alembic import op
from sqlalchemy import text

revision = "0002"
down_revision = "0001"

STATEMENTS = [
    "ALTER TABLE executions SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05)",
    "ALTER TABLE jobs SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05)",
]


def upgrade() -> None:
    """Set storage parameters; setting them again changes nothing."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for statement in STATEMENTS:
        op.execute(text(statement))


def downgrade() -> None:
    """Go back to the defaults."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in ("executions", "jobs"):
        op.execute(
            text(
                f"ALTER TABLE {table} RESET (fillfactor, autovacuum_vacuum_scale_factor, "
                "autovacuum_analyze_scale_factor)"
            )
        )
