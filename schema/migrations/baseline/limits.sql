-- Limits, breakers, pauses and routes. schema/tables/limits.py describes the columns.

CREATE TABLE IF NOT EXISTS gates (
  gate_id TEXT NOT NULL,
  revision BIGINT NOT NULL DEFAULT 0,
  tat_ns BIGINT NOT NULL DEFAULT 0,
  used_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_gates PRIMARY KEY (gate_id)
);

CREATE TABLE IF NOT EXISTS gate_windows (
  gate_id TEXT NOT NULL,
  slot BIGINT NOT NULL,
  bucket BIGINT NOT NULL,
  started BIGINT NOT NULL,
  CONSTRAINT pk_gate_windows PRIMARY KEY (gate_id, slot)
);

CREATE TABLE IF NOT EXISTS breakers (
  target TEXT NOT NULL,
  state TEXT NOT NULL DEFAULT 'closed',
  revision BIGINT NOT NULL DEFAULT 0,
  reason TEXT,
  failed BIGINT,
  results BIGINT,
  changed_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  open_until TIMESTAMPTZ,
  probe_worker TEXT,
  probe_until TIMESTAMPTZ,
  watched_until TIMESTAMPTZ NOT NULL,
  CONSTRAINT pk_breakers PRIMARY KEY (target),
  CONSTRAINT chk_breakers_state CHECK (state IN ('closed', 'open', 'half_open'))
);

CREATE TABLE IF NOT EXISTS breaker_counts (
  target TEXT NOT NULL,
  slot BIGINT NOT NULL,
  endpoint TEXT NOT NULL,
  ok BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  CONSTRAINT pk_breaker_counts PRIMARY KEY (target, slot, endpoint)
);

CREATE TABLE IF NOT EXISTS breaker_events (
  event_id TEXT NOT NULL,
  target TEXT NOT NULL,
  from_state TEXT NOT NULL,
  to_state TEXT NOT NULL,
  reason TEXT NOT NULL,
  actor TEXT,
  open_until TIMESTAMPTZ,
  occurred_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_breaker_events PRIMARY KEY (event_id),
  CONSTRAINT chk_breaker_events_from CHECK (from_state IN ('closed', 'open', 'half_open')),
  CONSTRAINT chk_breaker_events_to CHECK (to_state IN ('closed', 'open', 'half_open'))
);
CREATE INDEX IF NOT EXISTS idx_breaker_events_target ON breaker_events (target, occurred_at, event_id);
CREATE INDEX IF NOT EXISTS idx_breaker_events_time ON breaker_events (occurred_at, event_id) /* USING HASH */;

CREATE TABLE IF NOT EXISTS breaker_endpoints (
  target TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  CONSTRAINT pk_breaker_endpoints PRIMARY KEY (target, endpoint)
);
CREATE INDEX IF NOT EXISTS idx_breaker_endpoints_endpoint ON breaker_endpoints (endpoint, target);

CREATE TABLE IF NOT EXISTS routes (
  position BIGINT NOT NULL,
  pattern TEXT NOT NULL,
  queue TEXT NOT NULL,
  source TEXT NOT NULL,
  CONSTRAINT pk_routes PRIMARY KEY (position),
  CONSTRAINT chk_routes_source CHECK (source IN ('environment', 'api')),
  CONSTRAINT chk_routes_position CHECK (position >= 0)
);

CREATE TABLE IF NOT EXISTS paused_queues (
  queue TEXT NOT NULL,
  paused_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  paused_by TEXT NOT NULL,
  CONSTRAINT pk_paused_queues PRIMARY KEY (queue)
);
