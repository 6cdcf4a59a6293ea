-- Jobs. schema/tables/jobs.py describes the columns.

CREATE TABLE IF NOT EXISTS time_zone_rules (
  id TEXT NOT NULL,
  digest TEXT NOT NULL,
  updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_time_zone_rules PRIMARY KEY (id)
);

CREATE TABLE IF NOT EXISTS jobs (
  job_id TEXT NOT NULL,
  crdb_region TEXT NOT NULL DEFAULT 'default',
  endpoint TEXT NOT NULL,
  endpoint_version BIGINT NOT NULL,
  endpoint_type TEXT NOT NULL,
  trigger_type TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'ACTIVE',
  version BIGINT NOT NULL DEFAULT 1,
  previous_version_id TEXT,
  replaced_by_id TEXT,
  first_version_id TEXT,
  idempotency_key TEXT,
  name TEXT,
  labels JSONB,
  input JSONB,
  max_attempts BIGINT NOT NULL DEFAULT 1,
  max_age_ms BIGINT,
  queue TEXT,
  priority BIGINT,
  limit_key TEXT NOT NULL DEFAULT '',
  run_at TIMESTAMPTZ,
  callbacks JSONB,
  followed BIGINT,
  callback_of TEXT,
  trace_context TEXT,
  cron_expression TEXT,
  cron_timezone TEXT,
  cron_starts_at TIMESTAMPTZ,
  cron_ends_at TIMESTAMPTZ,
  interval_ms BIGINT,
  fixed_delay BOOLEAN NOT NULL DEFAULT false,
  cron_next_run_at TIMESTAMPTZ,
  cron_last_tick_at TIMESTAMPTZ,
  catch_up TEXT NOT NULL DEFAULT 'all',
  max_catch_up BIGINT,
  overlap TEXT NOT NULL DEFAULT 'allow',
  skipped_catch_up BIGINT NOT NULL DEFAULT 0,
  skipped_overlap BIGINT NOT NULL DEFAULT 0,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  paused_at TIMESTAMPTZ,
  retired_at TIMESTAMPTZ,
  ended_at TIMESTAMPTZ,
  end_reason TEXT,
  CONSTRAINT pk_jobs PRIMARY KEY (job_id),
  CONSTRAINT fk_jobs_endpoint FOREIGN KEY (endpoint) REFERENCES endpoints (name),
  CONSTRAINT chk_trigger_type CHECK (trigger_type IN ('IMMEDIATE', 'DELAYED', 'CRON', 'INTERVAL')),
  CONSTRAINT chk_status CHECK (status IN ('ACTIVE', 'PAUSED', 'RETIRED')),
  CONSTRAINT chk_endpoint_type CHECK (endpoint_type IN ('HTTP', 'KAFKA', 'REDIS_STREAM', 'NOTIFICATION')),
  CONSTRAINT chk_jobs_max_attempts CHECK (max_attempts >= 1),
  CONSTRAINT chk_jobs_retired_at CHECK ((status = 'RETIRED') = (retired_at IS NOT NULL)),
  CONSTRAINT chk_jobs_cron
    CHECK (trigger_type <> 'CRON' OR (cron_expression IS NOT NULL AND cron_timezone IS NOT NULL)),
  CONSTRAINT chk_jobs_every CHECK (trigger_type <> 'INTERVAL' OR (interval_ms IS NOT NULL AND interval_ms > 0)),
  CONSTRAINT chk_jobs_next_tick
    CHECK (cron_next_run_at IS NULL OR (trigger_type IN ('CRON', 'INTERVAL') AND status = 'ACTIVE')),
  CONSTRAINT chk_jobs_paused_at CHECK ((status = 'PAUSED') = (paused_at IS NOT NULL)),
  CONSTRAINT chk_jobs_catch_up CHECK (catch_up IN ('all', 'latest', 'none')),
  CONSTRAINT chk_jobs_overlap CHECK (overlap IN ('allow', 'skip')),
  CONSTRAINT chk_jobs_priority CHECK (priority >= 0 AND priority <= 255)
);
CREATE UNIQUE INDEX IF NOT EXISTS idx_jobs_idempotency ON jobs (endpoint, idempotency_key);
CREATE INDEX IF NOT EXISTS idx_jobs_created ON jobs (created_at, job_id) /* USING HASH */;
CREATE INDEX IF NOT EXISTS idx_jobs_endpoint ON jobs (endpoint, created_at, job_id);
CREATE INDEX IF NOT EXISTS idx_jobs_name ON jobs (name, created_at, job_id) WHERE name IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_jobs_labels ON jobs USING gin (labels) WHERE labels IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_jobs_versions ON jobs (first_version_id, version) WHERE first_version_id IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_jobs_recurring ON jobs (created_at, job_id) /* USING HASH */
  WHERE trigger_type IN ('CRON', 'INTERVAL');
CREATE INDEX IF NOT EXISTS idx_jobs_recurring_of ON jobs (endpoint, created_at, job_id)
  WHERE trigger_type IN ('CRON', 'INTERVAL');
CREATE INDEX IF NOT EXISTS idx_jobs_on_pause ON jobs (created_at, job_id) /* USING HASH */ WHERE paused_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_jobs_ends ON jobs (ended_at, job_id) /* USING HASH */ WHERE ended_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_jobs_cron_due ON jobs (cron_next_run_at, job_id) WHERE cron_next_run_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS unfinished_changes (
  job_id TEXT NOT NULL,
  change_id TEXT NOT NULL,
  change TEXT NOT NULL,
  actor TEXT,
  begun BOOLEAN NOT NULL DEFAULT false,
  running BOOLEAN NOT NULL DEFAULT false,
  began_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_unfinished_changes PRIMARY KEY (job_id)
);
