-- Executions, attempts, logs and events. schema/tables/executions.py describes the columns.

CREATE TABLE IF NOT EXISTS executions (
  execution_id TEXT NOT NULL,
  crdb_region TEXT NOT NULL DEFAULT 'default',
  job_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  endpoint_version BIGINT NOT NULL,
  endpoint_type TEXT NOT NULL,
  queue TEXT NOT NULL,
  shard BIGINT NOT NULL,
  limit_key TEXT NOT NULL DEFAULT '',
  priority BIGINT NOT NULL DEFAULT 128,
  idempotency_key TEXT,
  status TEXT NOT NULL DEFAULT 'PENDING',
  output JSONB,
  attempt_count BIGINT NOT NULL DEFAULT 0,
  max_attempts BIGINT NOT NULL DEFAULT 1,
  worker_id TEXT,
  run_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  scheduled_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  expires_at TIMESTAMPTZ,
  started_at TIMESTAMPTZ,
  completed_at TIMESTAMPTZ,
  duration_ms BIGINT,
  on_hold BOOLEAN NOT NULL DEFAULT false,
  cancel_requested_at TIMESTAMPTZ,
  abort_requested_at TIMESTAMPTZ,
  config_revision BIGINT,
  followed BIGINT,
  trace_context TEXT,
  result_retention_ms BIGINT,
  result_pruned_at TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_executions PRIMARY KEY (execution_id),
  CONSTRAINT fk_executions_job FOREIGN KEY (job_id) REFERENCES jobs (job_id),
  CONSTRAINT chk_exec_status
    CHECK (status IN ('PENDING', 'QUEUED', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'CANCELLED')),
  CONSTRAINT chk_executions_max_attempts CHECK (max_attempts >= 1),
  CONSTRAINT chk_executions_attempts CHECK (attempt_count >= 0 AND attempt_count <= max_attempts),
  CONSTRAINT chk_executions_running
    CHECK (status <> 'RUNNING' OR (worker_id IS NOT NULL AND started_at IS NOT NULL AND attempt_count >= 1)),
  CONSTRAINT chk_executions_completed
    CHECK ((status IN ('SUCCESS', 'FAILED', 'CANCELLED')) = (completed_at IS NOT NULL)),
  CONSTRAINT chk_executions_on_hold CHECK (NOT on_hold OR status = 'PENDING'),
  CONSTRAINT chk_executions_priority CHECK (priority >= 0 AND priority <= 255)
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_executions_tick ON executions (job_id, idempotency_key);
CREATE INDEX IF NOT EXISTS idx_executions_waits ON executions (status, created_at, execution_id) /* USING HASH */
  WHERE completed_at IS NULL AND status IN ('PENDING', 'QUEUED', 'RETRYING');
CREATE INDEX IF NOT EXISTS idx_executions_waits_of_endpoint ON executions (endpoint, status, created_at, execution_id)
  WHERE completed_at IS NULL AND status IN ('PENDING', 'QUEUED', 'RETRYING');
CREATE INDEX IF NOT EXISTS idx_executions_ended ON executions (status, created_at, execution_id) /* USING HASH */
  WHERE completed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_executions_ended_of_endpoint ON executions (endpoint, status, created_at, execution_id)
  WHERE completed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_executions_ended_of_job ON executions (job_id, status, created_at, execution_id)
  WHERE completed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_executions_open ON executions (job_id, execution_id) WHERE completed_at IS NULL;
CREATE INDEX IF NOT EXISTS idx_executions_retrying ON executions (job_id, execution_id) WHERE status = 'RETRYING';
CREATE INDEX IF NOT EXISTS idx_executions_pickup ON executions (queue, shard, run_at, execution_id)
  WHERE status IN ('QUEUED', 'RETRYING');
CREATE INDEX IF NOT EXISTS idx_executions_lanes
  ON executions (queue, shard, endpoint, limit_key, priority, run_at, execution_id)
  WHERE status NOT IN ('PENDING', 'RUNNING', 'SUCCESS', 'FAILED', 'CANCELLED');
CREATE INDEX IF NOT EXISTS idx_executions_waiting ON executions (shard, run_at, execution_id)
  WHERE status = 'PENDING' AND NOT on_hold;
CREATE INDEX IF NOT EXISTS idx_executions_running_lanes ON executions (endpoint, limit_key, worker_id, execution_id)
  WHERE status = 'RUNNING';
CREATE INDEX IF NOT EXISTS idx_executions_aborts ON executions (worker_id, execution_id)
  WHERE status = 'RUNNING' AND abort_requested_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_executions_finished ON executions (shard, completed_at, execution_id)
  WHERE completed_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_executions_expiry ON executions (shard, expires_at, execution_id)
  WHERE expires_at IS NOT NULL AND status IN ('QUEUED', 'RETRYING');
CREATE INDEX IF NOT EXISTS idx_executions_results ON executions (shard, result_retention_ms, completed_at, execution_id)
  WHERE result_retention_ms IS NOT NULL AND result_pruned_at IS NULL AND completed_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS attempts (
  attempt_id TEXT NOT NULL,
  crdb_region TEXT NOT NULL DEFAULT 'default',
  execution_id TEXT NOT NULL,
  attempt_number BIGINT NOT NULL,
  status TEXT NOT NULL,
  worker_id TEXT,
  started_at TIMESTAMPTZ NOT NULL,
  completed_at TIMESTAMPTZ,
  duration_ms BIGINT,
  output JSONB,
  error JSONB,
  led_to TEXT,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_attempts PRIMARY KEY (attempt_id),
  CONSTRAINT fk_attempts_execution FOREIGN KEY (execution_id) REFERENCES executions (execution_id),
  CONSTRAINT uq_attempts_exec_number UNIQUE (execution_id, attempt_number),
  CONSTRAINT chk_attempt_status CHECK (status IN ('SUCCESS', 'FAILED'))
);
CREATE INDEX IF NOT EXISTS idx_attempts_created ON attempts (created_at) /* USING HASH */;

CREATE TABLE IF NOT EXISTS execution_logs (
  log_id TEXT NOT NULL,
  crdb_region TEXT NOT NULL DEFAULT 'default',
  execution_id TEXT NOT NULL,
  attempt_number BIGINT NOT NULL,
  level TEXT NOT NULL,
  message TEXT NOT NULL,
  logged_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_execution_logs PRIMARY KEY (log_id),
  CONSTRAINT fk_logs_execution FOREIGN KEY (execution_id) REFERENCES executions (execution_id),
  CONSTRAINT chk_log_level CHECK (level IN ('DEBUG', 'INFO', 'WARN', 'ERROR'))
);
CREATE INDEX IF NOT EXISTS idx_logs_by_execution ON execution_logs (execution_id, logged_at, log_id);

CREATE TABLE IF NOT EXISTS execution_events (
  event_id TEXT NOT NULL,
  crdb_region TEXT NOT NULL DEFAULT 'default',
  execution_id TEXT NOT NULL,
  from_status TEXT NOT NULL,
  to_status TEXT NOT NULL,
  attempt_number BIGINT NOT NULL,
  actor TEXT,
  reason TEXT NOT NULL,
  occurred_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_execution_events PRIMARY KEY (event_id),
  CONSTRAINT fk_execution_events_execution FOREIGN KEY (execution_id) REFERENCES executions (execution_id),
  CONSTRAINT chk_execution_events_from
    CHECK (from_status IN ('PENDING', 'QUEUED', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'CANCELLED')),
  CONSTRAINT chk_execution_events_to
    CHECK (to_status IN ('PENDING', 'QUEUED', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'CANCELLED'))
);
CREATE INDEX IF NOT EXISTS idx_execution_events_time ON execution_events (occurred_at, event_id) /* USING HASH */;
CREATE INDEX IF NOT EXISTS idx_execution_events_execution ON execution_events (execution_id, occurred_at, event_id);
