"""Drop the index of all unfinished executions: lists of open jobs read those of the lists of executions.

While the release before still runs, its lists of ACTIVE jobs are slow.
"""

from schema import online

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Drop it, if it exists."""
    online.drop_index("idx_executions_unfinished")


def downgrade() -> None:
    """Build what the previous release reads."""
    online.create_index(
        "idx_executions_unfinished",
        "executions",
        ["created_at", "job_id"],
        where="completed_at IS NULL",
        leads_with_time=True,
    )
