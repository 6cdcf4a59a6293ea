"""Ends of executions: an outbox of those that somebody follows, and dead letters.

What a worker or a scheduler of the release before ends meanwhile has no dead letter.
"""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0021"
down_revision = "0020"

ENDS = (
    "end_id TEXT NOT NULL, crdb_region TEXT DEFAULT 'default' NOT NULL, shard BIGINT NOT NULL, "
    "execution_id TEXT NOT NULL, endpoint TEXT NOT NULL, status TEXT NOT NULL, attempt BIGINT NOT NULL, "
    "followed BIGINT DEFAULT 0 NOT NULL, is_rejected BOOLEAN DEFAULT false NOT NULL, reason TEXT, "
    "ended_at TIMESTAMPTZ NOT NULL, due_at TIMESTAMPTZ DEFAULT now() NOT NULL, tries BIGINT DEFAULT 0 NOT NULL, "
    "effects_left JSONB, CONSTRAINT pk_execution_ends PRIMARY KEY (end_id), "
    "CONSTRAINT chk_execution_ends_status CHECK (status IN "
    "('PENDING', 'QUEUED', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'CANCELLED'))"
)
LETTERS = (
    "letter_id TEXT NOT NULL, crdb_region TEXT DEFAULT 'default' NOT NULL, execution_id TEXT NOT NULL, "
    "job_id TEXT NOT NULL, endpoint TEXT NOT NULL, endpoint_version BIGINT NOT NULL, labels JSONB, "
    "error_type TEXT NOT NULL, message TEXT, attempt_count BIGINT NOT NULL, failed_at TIMESTAMPTZ NOT NULL, "
    "resolution TEXT, resolved_at TIMESTAMPTZ, resolved_by TEXT, note TEXT, redriven_as TEXT, "
    "CONSTRAINT pk_dead_letters PRIMARY KEY (letter_id), "
    "CONSTRAINT chk_dead_letters_resolution CHECK (resolution IN ('RETRIED', 'REDRIVEN', 'ARCHIVED')), "
    "CONSTRAINT chk_dead_letters_resolved CHECK ((resolution IS NULL) = (resolved_at IS NULL))"
)


def upgrade() -> None:
    """Add the column and the tables; each step may be repeated."""
    online.add_column("executions", "followed", "BIGINT")
    op.execute(text(f"CREATE TABLE IF NOT EXISTS execution_ends ({ENDS})"))
    online.create_index("idx_execution_ends_due", "execution_ends", ["shard", "due_at", "end_id"])
    op.execute(text(f"CREATE TABLE IF NOT EXISTS dead_letters ({LETTERS})"))
    newest = ["failed_at", "letter_id"]
    for name, condition in (("open", "resolved_at IS NULL"), ("resolved", "resolved_at IS NOT NULL")):
        index = f"idx_dead_letters_{name}"
        online.create_index(index, "dead_letters", newest, where=condition, leads_with_time=True)
        for column in ("endpoint", "error_type"):
            online.create_index(f"{index}_of_{column}", "dead_letters", [column, *newest], where=condition)
    online.create_index("idx_dead_letters_execution", "dead_letters", ["execution_id", "letter_id"])
    if not online.is_cockroach():
        # It is empty most of the time, and what was in it must not slow down who reads it.
        online.set_storage(
            "execution_ends", "SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000)"
        )


def downgrade() -> None:
    """Drop them: dead letters are lost, and so is what was to follow ends that nobody has handled."""
    for table in ("dead_letters", "execution_ends"):
        op.execute(text(f"DROP TABLE IF EXISTS {table}"))
    op.execute(text("ALTER TABLE executions DROP COLUMN IF EXISTS followed"))
