"""An index of the repeating jobs of an endpoint: they prevent its deletion."""

from schema import online

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Create the index; the step may be repeated."""
    online.create_index(
        "idx_jobs_repeating",
        "jobs",
        ["endpoint", "job_id"],
        where="trigger_type IN ('CRON', 'INTERVAL') AND status <> 'RETIRED'",
    )


def downgrade() -> None:
    """Drop it."""
    online.drop_index("idx_jobs_repeating")
