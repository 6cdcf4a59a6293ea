-- Completion events, dead letters and bulk work. schema/tables/ending.py describes the columns.

CREATE TABLE IF NOT EXISTS execution_ends (
  end_id TEXT NOT NULL,
  crdb_region TEXT NOT NULL DEFAULT 'default',
  shard BIGINT NOT NULL,
  execution_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  status TEXT NOT NULL,
  attempt BIGINT NOT NULL,
  followed BIGINT NOT NULL DEFAULT 0,
  is_rejected BOOLEAN NOT NULL DEFAULT false,
  reason TEXT,
  ended_at TIMESTAMPTZ NOT NULL,
  due_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  tries BIGINT NOT NULL DEFAULT 0,
  effects_left JSONB,
  CONSTRAINT pk_execution_ends PRIMARY KEY (end_id),
  CONSTRAINT chk_execution_ends_status
    CHECK (status IN ('PENDING', 'QUEUED', 'RUNNING', 'RETRYING', 'SUCCESS', 'FAILED', 'CANCELLED'))
);
CREATE INDEX IF NOT EXISTS idx_execution_ends_due ON execution_ends (shard, due_at, end_id);

CREATE TABLE IF NOT EXISTS dead_letters (
  letter_id TEXT NOT NULL,
  crdb_region TEXT NOT NULL DEFAULT 'default',
  execution_id TEXT NOT NULL,
  job_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  endpoint_version BIGINT NOT NULL,
  labels JSONB,
  error_type TEXT NOT NULL,
  message TEXT,
  attempt_count BIGINT NOT NULL,
  failed_at TIMESTAMPTZ NOT NULL,
  resolution TEXT,
  resolved_at TIMESTAMPTZ,
  resolved_by TEXT,
  note TEXT,
  redriven_as TEXT,
  CONSTRAINT pk_dead_letters PRIMARY KEY (letter_id),
  CONSTRAINT chk_dead_letters_resolution CHECK (resolution IN ('RETRIED', 'REDRIVEN', 'ARCHIVED')),
  CONSTRAINT chk_dead_letters_resolved CHECK ((resolution IS NULL) = (resolved_at IS NULL))
);
CREATE INDEX IF NOT EXISTS idx_dead_letters_execution ON dead_letters (execution_id, letter_id);
CREATE INDEX IF NOT EXISTS idx_dead_letters_open ON dead_letters (failed_at, letter_id) /* USING HASH */
  WHERE resolved_at IS NULL;
CREATE INDEX IF NOT EXISTS idx_dead_letters_open_of_endpoint ON dead_letters (endpoint, failed_at, letter_id)
  WHERE resolved_at IS NULL;
CREATE INDEX IF NOT EXISTS idx_dead_letters_open_of_error_type ON dead_letters (error_type, failed_at, letter_id)
  WHERE resolved_at IS NULL;
CREATE INDEX IF NOT EXISTS idx_dead_letters_resolved ON dead_letters (failed_at, letter_id) /* USING HASH */
  WHERE resolved_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_dead_letters_resolved_of_endpoint ON dead_letters (endpoint, failed_at, letter_id)
  WHERE resolved_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_dead_letters_resolved_of_error_type ON dead_letters (error_type, failed_at, letter_id)
  WHERE resolved_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS redrives (
  redrive_id TEXT NOT NULL,
  status TEXT NOT NULL,
  wanted JSONB NOT NULL,
  to_endpoint TEXT,
  rate BIGINT NOT NULL,
  actor TEXT,
  redriven BIGINT NOT NULL DEFAULT 0,
  refused BIGINT NOT NULL DEFAULT 0,
  last_refusal TEXT,
  reached_at TIMESTAMPTZ,
  reached_id TEXT NOT NULL DEFAULT '',
  holder TEXT,
  held_until TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  ended_at TIMESTAMPTZ,
  CONSTRAINT pk_redrives PRIMARY KEY (redrive_id),
  CONSTRAINT chk_redrives_status CHECK (status IN ('RUNNING', 'PAUSED', 'STOPPED', 'DONE')),
  CONSTRAINT chk_redrives_ended CHECK ((status IN ('STOPPED', 'DONE')) = (ended_at IS NOT NULL))
);
CREATE INDEX IF NOT EXISTS idx_redrives_created ON redrives (created_at, redrive_id) /* USING HASH */;
CREATE INDEX IF NOT EXISTS idx_redrives_running ON redrives (redrive_id) WHERE status = 'RUNNING';

CREATE TABLE IF NOT EXISTS bulk_operations (
  operation_id TEXT NOT NULL,
  action TEXT NOT NULL,
  status TEXT NOT NULL,
  wanted JSONB NOT NULL,
  parameters JSONB NOT NULL,
  rate BIGINT NOT NULL,
  actor TEXT,
  changed BIGINT NOT NULL DEFAULT 0,
  refused BIGINT NOT NULL DEFAULT 0,
  last_refusal TEXT,
  reached_at TIMESTAMPTZ,
  reached_id TEXT NOT NULL DEFAULT '',
  holder TEXT,
  held_until TIMESTAMPTZ,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  ended_at TIMESTAMPTZ,
  CONSTRAINT pk_bulk_operations PRIMARY KEY (operation_id),
  CONSTRAINT chk_bulk_operations_action CHECK (action IN ('cancel', 'retry', 'reschedule', 'archive')),
  CONSTRAINT chk_bulk_operations_status CHECK (status IN ('RUNNING', 'PAUSED', 'STOPPED', 'DONE')),
  CONSTRAINT chk_bulk_operations_ended CHECK ((status IN ('STOPPED', 'DONE')) = (ended_at IS NOT NULL))
);
CREATE INDEX IF NOT EXISTS idx_bulk_operations_created ON bulk_operations (created_at, operation_id) /* USING HASH */;
CREATE INDEX IF NOT EXISTS idx_bulk_operations_running ON bulk_operations (operation_id) WHERE status = 'RUNNING';
