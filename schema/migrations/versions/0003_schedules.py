"""Schedules (intervals, catch-up, overlap, pause, versions), cancel requests, history, audit log, revisions.

Expand first: columns with defaults, then constraints and indexes under new names, then the old ones go.
"""

from alembic import op
from sqlalchemy import text

revision = "0003"
down_revision = "0002"

COLUMNS = {
    "payload_specs": ["revision BIGINT DEFAULT 1 NOT NULL"],
    "configs": ["revision BIGINT DEFAULT 1 NOT NULL"],
    "secrets": ["revision BIGINT DEFAULT 1 NOT NULL"],
    "jobs": [
        "first_version_id TEXT",
        "interval_ms BIGINT",
        "fixed_delay BOOLEAN DEFAULT false NOT NULL",
        "catch_up TEXT DEFAULT 'all' NOT NULL",
        "max_catch_up BIGINT",
        "overlap TEXT DEFAULT 'allow' NOT NULL",
        "skipped_catch_up BIGINT DEFAULT 0 NOT NULL",
        "skipped_overlap BIGINT DEFAULT 0 NOT NULL",
        "paused_at TIMESTAMPTZ",
    ],
    "executions": ["on_hold BOOLEAN DEFAULT false NOT NULL", "cancel_requested_at TIMESTAMPTZ"],
}

CHECKS = {
    "jobs": {
        "chk_jobs_trigger_type": "trigger_type IN ('IMMEDIATE', 'DELAYED', 'CRON', 'INTERVAL')",
        "chk_jobs_state": "status IN ('ACTIVE', 'PAUSED', 'RETIRED')",
        "chk_jobs_every": "trigger_type <> 'INTERVAL' OR (interval_ms IS NOT NULL AND interval_ms > 0)",
        "chk_jobs_next_tick": "cron_next_run_at IS NULL OR (trigger_type IN ('CRON', 'INTERVAL') AND status = 'ACTIVE')",
        "chk_jobs_paused_at": "(status = 'PAUSED') = (paused_at IS NOT NULL)",
        "chk_jobs_catch_up": "catch_up IN ('all', 'latest', 'none')",
        "chk_jobs_overlap": "overlap IN ('allow', 'skip')",
    },
    "executions": {"chk_executions_on_hold": "NOT on_hold OR status = 'PENDING'"},
}

REST = [
    "ALTER TABLE jobs DROP CONSTRAINT IF EXISTS chk_jobs_trigger",
    "ALTER TABLE jobs DROP CONSTRAINT IF EXISTS chk_jobs_status",
    "ALTER TABLE jobs DROP CONSTRAINT IF EXISTS chk_jobs_next_run",
    """
    CREATE INDEX IF NOT EXISTS idx_jobs_open ON jobs (created_at, job_id) WHERE status <> 'RETIRED'
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_jobs_paused ON jobs (job_id) WHERE paused_at IS NOT NULL
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_jobs_versions ON jobs (first_version_id, version) WHERE first_version_id IS NOT NULL
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_executions_created ON executions (created_at, execution_id)
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_executions_unsuccessful ON executions (created_at, execution_id) WHERE status IN ('FAILED', 'CANCELLED')
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_executions_open ON executions (job_id, execution_id) WHERE completed_at IS NULL
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_executions_waiting ON executions (shard, run_at, execution_id) WHERE status = 'PENDING' AND NOT on_hold
    """,
    "DROP INDEX IF EXISTS idx_executions_pending",
    """
    CREATE TABLE IF NOT EXISTS execution_events (
        event_id TEXT NOT NULL,
        crdb_region TEXT DEFAULT 'default' NOT NULL,
        execution_id TEXT NOT NULL,
        from_status TEXT NOT NULL,
        to_status TEXT NOT NULL,
        attempt_number BIGINT NOT NULL,
        actor TEXT,
        reason TEXT NOT NULL,
        occurred_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        CONSTRAINT pk_execution_events PRIMARY KEY (event_id),
        CONSTRAINT fk_execution_events_execution FOREIGN KEY (execution_id) REFERENCES executions (execution_id),
        CONSTRAINT chk_execution_events_from CHECK (from_status IN ('PENDING', 'QUEUED', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'CANCELLED')),
        CONSTRAINT chk_execution_events_to CHECK (to_status IN ('PENDING', 'QUEUED', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'CANCELLED'))
    )
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_execution_events_execution ON execution_events (execution_id, occurred_at, event_id)
    """,
    """
    CREATE TABLE IF NOT EXISTS audit_log (
        audit_id TEXT NOT NULL,
        actor_id TEXT,
        actor_name TEXT NOT NULL,
        action TEXT NOT NULL,
        resource_type TEXT NOT NULL,
        resource TEXT NOT NULL,
        before_hash TEXT,
        after_hash TEXT,
        request_id TEXT,
        occurred_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        CONSTRAINT pk_audit_log PRIMARY KEY (audit_id)
    )
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_audit_log_time ON audit_log (occurred_at, audit_id)
    """,
]


def upgrade() -> None:
    """Expand, then drop what was replaced; each statement may be repeated."""
    for table, columns in COLUMNS.items():
        for column in columns:
            op.execute(text(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {column}"))
    for table, checks in CHECKS.items():
        for name, condition in checks.items():
            op.execute(text(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}"))
            op.execute(text(f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({condition})"))
    for statement in REST:
        op.execute(text(statement))


def downgrade() -> None:
    """Refuse: rows may hold states that the previous schema did not know."""
    raise RuntimeError("revision 0003 cannot be downgraded; restore a backup")
