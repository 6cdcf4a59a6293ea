"""The tables of the first release.

Frozen text, not generated from `schema.tables` at run time: a later edit there must not change what older
databases got. A test compares a migrated database with `schema.tables`.
"""

from alembic import op
from sqlalchemy import text

revision = "0001"
down_revision = None

STATEMENTS = [
    """
    CREATE TABLE IF NOT EXISTS api_keys (
        key_id TEXT NOT NULL,
        name TEXT NOT NULL,
        key_hash TEXT NOT NULL,
        scopes JSONB NOT NULL,
        created_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        expires_at TIMESTAMPTZ,
        last_used_at TIMESTAMPTZ,
        revoked_at TIMESTAMPTZ,
        CONSTRAINT pk_api_keys PRIMARY KEY (key_id)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS catalog_revision (
        id TEXT NOT NULL,
        revision BIGINT DEFAULT 0 NOT NULL,
        CONSTRAINT pk_catalog_revision PRIMARY KEY (id)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS configs (
        name TEXT NOT NULL,
        values_json JSONB NOT NULL,
        created_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        updated_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        CONSTRAINT pk_configs PRIMARY KEY (name)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS endpoint_versions (
        endpoint TEXT NOT NULL,
        version BIGINT NOT NULL,
        endpoint_type TEXT NOT NULL,
        payload_spec_ref TEXT,
        config_ref TEXT,
        secret_refs JSONB DEFAULT '[]' NOT NULL,
        spec JSONB NOT NULL,
        retry_policy JSONB,
        created_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        CONSTRAINT pk_endpoint_versions PRIMARY KEY (endpoint, version),
        CONSTRAINT chk_endpoint_versions_type CHECK (endpoint_type IN ('HTTP', 'KAFKA', 'REDIS_STREAM'))
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS payload_specs (
        name TEXT NOT NULL,
        schema_json JSONB NOT NULL,
        created_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        updated_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        CONSTRAINT pk_payload_specs PRIMARY KEY (name)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS region_heartbeats (
        region TEXT NOT NULL,
        component TEXT NOT NULL,
        last_beat_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        status TEXT DEFAULT 'ALIVE' NOT NULL,
        metadata JSONB,
        CONSTRAINT pk_region_heartbeats PRIMARY KEY (region, component)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS region_status (
        region TEXT NOT NULL,
        alive BOOLEAN DEFAULT true NOT NULL,
        failed_at TIMESTAMPTZ,
        adopted_by TEXT,
        updated_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        CONSTRAINT pk_region_status PRIMARY KEY (region)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS secrets (
        name TEXT NOT NULL,
        encrypted_value BYTEA NOT NULL,
        created_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        updated_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        CONSTRAINT pk_secrets PRIMARY KEY (name)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS workers (
        worker_id TEXT NOT NULL,
        host TEXT NOT NULL,
        pid BIGINT NOT NULL,
        queues JSONB DEFAULT '[]' NOT NULL,
        capacity BIGINT DEFAULT 0 NOT NULL,
        in_flight BIGINT DEFAULT 0 NOT NULL,
        status TEXT DEFAULT 'ALIVE' NOT NULL,
        started_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        last_beat_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        lease_expires_at TIMESTAMPTZ NOT NULL,
        CONSTRAINT pk_workers PRIMARY KEY (worker_id),
        CONSTRAINT chk_workers_status CHECK (status IN ('ALIVE', 'DEAD'))
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS endpoints (
        name TEXT NOT NULL,
        endpoint_type TEXT NOT NULL,
        payload_spec_ref TEXT,
        config_ref TEXT,
        spec JSONB NOT NULL,
        retry_policy JSONB,
        version BIGINT DEFAULT 1 NOT NULL,
        created_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        updated_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        deleted_at TIMESTAMPTZ,
        CONSTRAINT pk_endpoints PRIMARY KEY (name),
        CONSTRAINT fk_endpoints_payload_spec FOREIGN KEY(payload_spec_ref) REFERENCES payload_specs (name),
        CONSTRAINT fk_endpoints_config FOREIGN KEY(config_ref) REFERENCES configs (name),
        CONSTRAINT chk_endpoints_type CHECK (endpoint_type IN ('HTTP', 'KAFKA', 'REDIS_STREAM'))
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS jobs (
        job_id TEXT NOT NULL,
        crdb_region TEXT DEFAULT 'default' NOT NULL,
        endpoint TEXT NOT NULL,
        endpoint_version BIGINT NOT NULL,
        endpoint_type TEXT NOT NULL,
        trigger_type TEXT NOT NULL,
        status TEXT DEFAULT 'ACTIVE' NOT NULL,
        version BIGINT DEFAULT 1 NOT NULL,
        previous_version_id TEXT,
        replaced_by_id TEXT,
        idempotency_key TEXT,
        input JSONB,
        max_attempts BIGINT DEFAULT 1 NOT NULL,
        run_at TIMESTAMPTZ,
        cron_expression TEXT,
        cron_timezone TEXT,
        cron_starts_at TIMESTAMPTZ,
        cron_ends_at TIMESTAMPTZ,
        cron_next_run_at TIMESTAMPTZ,
        cron_last_tick_at TIMESTAMPTZ,
        created_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        retired_at TIMESTAMPTZ,
        CONSTRAINT pk_jobs PRIMARY KEY (job_id),
        CONSTRAINT fk_jobs_endpoint FOREIGN KEY(endpoint) REFERENCES endpoints (name),
        CONSTRAINT chk_jobs_trigger CHECK (trigger_type IN ('IMMEDIATE', 'DELAYED', 'CRON')),
        CONSTRAINT chk_jobs_status CHECK (status IN ('ACTIVE', 'RETIRED')),
        CONSTRAINT chk_jobs_endpoint_type CHECK (endpoint_type IN ('HTTP', 'KAFKA', 'REDIS_STREAM')),
        CONSTRAINT chk_jobs_retired_at CHECK ((status = 'RETIRED') = (retired_at IS NOT NULL)),
        CONSTRAINT chk_jobs_cron CHECK (trigger_type <> 'CRON' OR (cron_expression IS NOT NULL AND cron_timezone IS NOT NULL)),
        CONSTRAINT chk_jobs_next_run CHECK (cron_next_run_at IS NULL OR (trigger_type = 'CRON' AND status = 'ACTIVE'))
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS executions (
        execution_id TEXT NOT NULL,
        crdb_region TEXT DEFAULT 'default' NOT NULL,
        job_id TEXT NOT NULL,
        endpoint TEXT NOT NULL,
        endpoint_version BIGINT NOT NULL,
        endpoint_type TEXT NOT NULL,
        queue TEXT NOT NULL,
        shard BIGINT NOT NULL,
        idempotency_key TEXT,
        status TEXT DEFAULT 'PENDING' NOT NULL,
        output JSONB,
        attempt_count BIGINT DEFAULT 0 NOT NULL,
        max_attempts BIGINT DEFAULT 1 NOT NULL,
        worker_id TEXT,
        run_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        scheduled_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        started_at TIMESTAMPTZ,
        completed_at TIMESTAMPTZ,
        duration_ms BIGINT,
        created_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        CONSTRAINT pk_executions PRIMARY KEY (execution_id),
        CONSTRAINT fk_executions_job FOREIGN KEY(job_id) REFERENCES jobs (job_id),
        CONSTRAINT chk_executions_status CHECK (status IN ('PENDING', 'QUEUED', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'CANCELLED')),
        CONSTRAINT chk_executions_attempts CHECK (attempt_count >= 0 AND attempt_count <= max_attempts),
        CONSTRAINT chk_executions_running CHECK (status <> 'RUNNING' OR (worker_id IS NOT NULL AND started_at IS NOT NULL AND attempt_count >= 1)),
        CONSTRAINT chk_executions_completed CHECK ((status IN ('SUCCESS', 'FAILED', 'CANCELLED')) = (completed_at IS NOT NULL))
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS attempts (
        attempt_id TEXT NOT NULL,
        crdb_region TEXT DEFAULT 'default' NOT NULL,
        execution_id TEXT NOT NULL,
        attempt_number BIGINT NOT NULL,
        status TEXT NOT NULL,
        worker_id TEXT,
        started_at TIMESTAMPTZ NOT NULL,
        completed_at TIMESTAMPTZ,
        duration_ms BIGINT,
        output JSONB,
        error JSONB,
        created_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        CONSTRAINT pk_attempts PRIMARY KEY (attempt_id),
        CONSTRAINT fk_attempts_execution FOREIGN KEY(execution_id) REFERENCES executions (execution_id),
        CONSTRAINT uq_attempts_exec_number UNIQUE (execution_id, attempt_number),
        CONSTRAINT chk_attempts_status CHECK (status IN ('SUCCESS', 'FAILED'))
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS execution_logs (
        log_id TEXT NOT NULL,
        crdb_region TEXT DEFAULT 'default' NOT NULL,
        execution_id TEXT NOT NULL,
        attempt_number BIGINT NOT NULL,
        level TEXT NOT NULL,
        message TEXT NOT NULL,
        logged_at TIMESTAMPTZ DEFAULT now() NOT NULL,
        CONSTRAINT pk_execution_logs PRIMARY KEY (log_id),
        CONSTRAINT fk_logs_execution FOREIGN KEY(execution_id) REFERENCES executions (execution_id),
        CONSTRAINT chk_logs_level CHECK (level IN ('DEBUG', 'INFO', 'WARN', 'ERROR'))
    )
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_endpoints_type ON endpoints (endpoint_type)
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_jobs_created ON jobs (created_at, job_id)
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_jobs_cron_due ON jobs (cron_next_run_at, job_id) WHERE cron_next_run_at IS NOT NULL
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_jobs_endpoint ON jobs (endpoint, created_at, job_id)
    """,
    """
    CREATE UNIQUE INDEX IF NOT EXISTS idx_jobs_idempotency ON jobs (endpoint, idempotency_key)
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_executions_finished ON executions (shard, completed_at, execution_id) WHERE completed_at IS NOT NULL
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_executions_job ON executions (job_id, created_at, execution_id)
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_executions_pending ON executions (shard, run_at, execution_id) WHERE status = 'PENDING'
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_executions_pickup ON executions (queue, shard, run_at, execution_id) WHERE status IN ('QUEUED', 'RETRYING')
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_executions_running ON executions (worker_id, execution_id) WHERE status = 'RUNNING'
    """,
    """
    CREATE UNIQUE INDEX IF NOT EXISTS idx_executions_tick ON executions (job_id, idempotency_key)
    """,
    """
    CREATE INDEX IF NOT EXISTS idx_logs_by_execution ON execution_logs (execution_id, logged_at, log_id)
    """,
    "INSERT INTO region_status (region, alive) VALUES ('default', true) ON CONFLICT (region) DO NOTHING",
    "INSERT INTO catalog_revision (id, revision) VALUES ('catalog', 0) ON CONFLICT (id) DO NOTHING",
]


def upgrade() -> None:
    """Create every table and index; each statement may be repeated."""
    for statement in STATEMENTS:
        op.execute(text(statement))


def downgrade() -> None:
    """Refuse: the first revision has nothing to go back to."""
    raise RuntimeError("the first revision cannot be downgraded; restore a backup or drop the database")
