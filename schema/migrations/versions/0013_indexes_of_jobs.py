"""No index of jobs on what ends with a job that runs once, so that its end changes no index.

On PostgreSQL that is an update in place (HOT), for which 0002 leaves room. Open jobs are found by their executions, and
those that repeat by indexes of their own.
"""

from schema import online

revision = "0013"
down_revision = "0012"

REPEATS = "trigger_type IN ('CRON', 'INTERVAL')"


def upgrade() -> None:
    """Build the new indexes, then drop those that they replace; each step may be repeated."""
    newest = ["created_at", "job_id"]
    online.create_index("idx_jobs_recurring", "jobs", newest, where=REPEATS, leads_with_time=True)
    online.create_index("idx_jobs_recurring_of", "jobs", ["endpoint", *newest], where=REPEATS)
    online.create_index("idx_jobs_on_pause", "jobs", newest, where="paused_at IS NOT NULL", leads_with_time=True)
    online.create_index(
        "idx_executions_unfinished", "executions", newest, where="completed_at IS NULL", leads_with_time=True
    )
    for name in ("idx_jobs_open", "idx_jobs_repeating", "idx_jobs_paused"):
        online.drop_index(name)


def downgrade() -> None:
    """Build what the previous release reads, then drop the others."""
    newest = ["created_at", "job_id"]
    online.create_index("idx_jobs_open", "jobs", newest, where="status <> 'RETIRED'", leads_with_time=True)
    online.create_index(
        "idx_jobs_repeating", "jobs", ["endpoint", "job_id"], where=f"{REPEATS} AND status <> 'RETIRED'"
    )
    online.create_index("idx_jobs_paused", "jobs", ["job_id"], where="paused_at IS NOT NULL")
    for name in ("idx_jobs_recurring", "idx_jobs_recurring_of", "idx_jobs_on_pause", "idx_executions_unfinished"):
        online.drop_index(name)
