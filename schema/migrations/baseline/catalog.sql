-- Payload specs, configs, secrets and endpoints. schema/tables/catalog.py describes the columns.

CREATE TABLE IF NOT EXISTS payload_specs (
  name TEXT NOT NULL,
  schema_json JSONB NOT NULL,
  revision BIGINT NOT NULL DEFAULT 1,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_payload_specs PRIMARY KEY (name)
);

CREATE TABLE IF NOT EXISTS configs (
  name TEXT NOT NULL,
  values_json JSONB NOT NULL,
  revision BIGINT NOT NULL DEFAULT 1,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_configs PRIMARY KEY (name)
);

CREATE TABLE IF NOT EXISTS secrets (
  name TEXT NOT NULL,
  encrypted_value BYTEA NOT NULL,
  revision BIGINT NOT NULL DEFAULT 1,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_secrets PRIMARY KEY (name)
);

CREATE TABLE IF NOT EXISTS catalog_revision (
  id TEXT NOT NULL,
  revision BIGINT NOT NULL DEFAULT 0,
  CONSTRAINT pk_catalog_revision PRIMARY KEY (id)
);
INSERT INTO catalog_revision (id) VALUES ('catalog'), ('flow'), ('routes'), ('callbacks'), ('notifications')
  ON CONFLICT (id) DO NOTHING;

CREATE TABLE IF NOT EXISTS superseded_configs (
  name TEXT NOT NULL,
  superseded_by BIGINT NOT NULL,
  values_json JSONB NOT NULL,
  superseded_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_superseded_configs PRIMARY KEY (name, superseded_by)
);

CREATE TABLE IF NOT EXISTS endpoints (
  name TEXT NOT NULL,
  endpoint_type TEXT NOT NULL,
  payload_spec_ref TEXT,
  config_ref TEXT,
  spec JSONB NOT NULL,
  retry_policy JSONB,
  keep_response TEXT NOT NULL DEFAULT 'always',
  callbacks JSONB,
  version BIGINT NOT NULL DEFAULT 1,
  queue TEXT,
  routed_queue TEXT,
  priority BIGINT NOT NULL DEFAULT 128,
  limits JSONB,
  breaker JSONB,
  paused_at TIMESTAMPTZ,
  result_retention_ms BIGINT,
  flow_revision BIGINT NOT NULL DEFAULT 0,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  deleted_at TIMESTAMPTZ,
  CONSTRAINT pk_endpoints PRIMARY KEY (name),
  CONSTRAINT fk_endpoints_payload_spec FOREIGN KEY (payload_spec_ref) REFERENCES payload_specs (name),
  CONSTRAINT fk_endpoints_config FOREIGN KEY (config_ref) REFERENCES configs (name),
  CONSTRAINT chk_endpoint_type CHECK (endpoint_type IN ('HTTP', 'KAFKA', 'REDIS_STREAM', 'NOTIFICATION')),
  CONSTRAINT chk_endpoints_keep_response CHECK (keep_response IN ('always', 'on_error', 'never')),
  CONSTRAINT chk_endpoints_priority CHECK (priority >= 0 AND priority <= 255)
);
CREATE INDEX IF NOT EXISTS idx_endpoints_type ON endpoints (endpoint_type);
CREATE INDEX IF NOT EXISTS idx_endpoints_flow ON endpoints (name)
  WHERE limits IS NOT NULL OR breaker IS NOT NULL OR paused_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS endpoint_versions (
  endpoint TEXT NOT NULL,
  version BIGINT NOT NULL,
  endpoint_type TEXT NOT NULL,
  payload_spec_ref TEXT,
  config_ref TEXT,
  secret_refs JSONB NOT NULL DEFAULT '[]',
  spec JSONB NOT NULL,
  retry_policy JSONB,
  keep_response TEXT NOT NULL DEFAULT 'always',
  callbacks JSONB,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_endpoint_versions PRIMARY KEY (endpoint, version),
  CONSTRAINT chk_endpoint_versions_type CHECK (endpoint_type IN ('HTTP', 'KAFKA', 'REDIS_STREAM', 'NOTIFICATION')),
  CONSTRAINT chk_endpoint_versions_keep_response CHECK (keep_response IN ('always', 'on_error', 'never'))
);
