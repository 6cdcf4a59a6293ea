-- Workers, keys, settings, audit log and regions. schema/tables/service.py describes the columns.

CREATE TABLE IF NOT EXISTS workers (
  worker_id TEXT NOT NULL,
  host TEXT NOT NULL,
  pid BIGINT NOT NULL,
  queues JSONB NOT NULL DEFAULT '[]',
  capacity BIGINT NOT NULL DEFAULT 0,
  in_flight BIGINT NOT NULL DEFAULT 0,
  status TEXT NOT NULL DEFAULT 'ALIVE',
  started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  last_beat_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  lease_expires_at TIMESTAMPTZ NOT NULL,
  CONSTRAINT pk_workers PRIMARY KEY (worker_id),
  CONSTRAINT chk_workers_status CHECK (status IN ('ALIVE', 'DEAD'))
);

CREATE TABLE IF NOT EXISTS worker_commands (
  command_id TEXT NOT NULL,
  worker_id TEXT NOT NULL,
  command TEXT NOT NULL,
  asked_by TEXT NOT NULL,
  asked_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  expires_at TIMESTAMPTZ NOT NULL,
  acknowledged_at TIMESTAMPTZ,
  CONSTRAINT pk_worker_commands PRIMARY KEY (command_id)
);
CREATE INDEX IF NOT EXISTS idx_worker_commands_worker ON worker_commands (worker_id, asked_at, command_id);

CREATE TABLE IF NOT EXISTS api_keys (
  key_id TEXT NOT NULL,
  name TEXT NOT NULL,
  key_hash TEXT NOT NULL,
  scopes JSONB NOT NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  expires_at TIMESTAMPTZ,
  last_used_at TIMESTAMPTZ,
  revoked_at TIMESTAMPTZ,
  CONSTRAINT pk_api_keys PRIMARY KEY (key_id)
);

CREATE TABLE IF NOT EXISTS signing_keys (
  purpose TEXT NOT NULL,
  key BYTEA NOT NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_signing_keys PRIMARY KEY (purpose)
);

CREATE TABLE IF NOT EXISTS enqueue_settings (
  id TEXT NOT NULL,
  shards BIGINT NOT NULL,
  look_ahead_ms BIGINT NOT NULL,
  updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_enqueue_settings PRIMARY KEY (id),
  CONSTRAINT chk_enqueue_settings CHECK (shards >= 1 AND look_ahead_ms >= 0)
);

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
  occurred_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_audit_log PRIMARY KEY (audit_id)
);
CREATE INDEX IF NOT EXISTS idx_audit_log_time ON audit_log (occurred_at, audit_id) /* USING HASH */;

CREATE TABLE IF NOT EXISTS idempotency_keys (
  key_id TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  request_id TEXT NOT NULL,
  status BIGINT,
  etag TEXT,
  body TEXT,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_idempotency_keys PRIMARY KEY (key_id, idempotency_key)
);
CREATE INDEX IF NOT EXISTS idx_idempotency_keys_time
  ON idempotency_keys (created_at, key_id, idempotency_key) /* USING HASH */;

CREATE TABLE IF NOT EXISTS region_heartbeats (
  region TEXT NOT NULL,
  component TEXT NOT NULL,
  last_beat_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  status TEXT NOT NULL DEFAULT 'ALIVE',
  metadata JSONB,
  CONSTRAINT pk_region_heartbeats PRIMARY KEY (region, component)
);

CREATE TABLE IF NOT EXISTS region_status (
  region TEXT NOT NULL,
  alive BOOLEAN NOT NULL DEFAULT true,
  failed_at TIMESTAMPTZ,
  adopted_by TEXT,
  updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_region_status PRIMARY KEY (region)
);
INSERT INTO region_status (region) VALUES ('default') ON CONFLICT (region) DO NOTHING;
