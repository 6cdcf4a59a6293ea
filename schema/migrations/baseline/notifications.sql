-- Notifications. schema/tables/notifications.py describes the columns.

CREATE TABLE IF NOT EXISTS notification_rules (
  name TEXT NOT NULL,
  rule_json JSONB NOT NULL,
  revision BIGINT NOT NULL DEFAULT 1,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_notification_rules PRIMARY KEY (name)
);

CREATE TABLE IF NOT EXISTS notification_parts (
  rule TEXT NOT NULL,
  part_id TEXT NOT NULL,
  tallies JSONB NOT NULL,
  created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_notification_parts PRIMARY KEY (rule, part_id)
);

CREATE TABLE IF NOT EXISTS notification_groups (
  group_id TEXT NOT NULL,
  rule TEXT NOT NULL,
  told JSONB NOT NULL,
  events BIGINT NOT NULL DEFAULT 0,
  waits_for TEXT,
  waits_until TIMESTAMPTZ,
  opened_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  closed_at TIMESTAMPTZ,
  messages JSONB,
  CONSTRAINT pk_notification_groups PRIMARY KEY (group_id),
  CONSTRAINT chk_notification_groups_closed CHECK ((closed_at IS NULL) = (messages IS NULL))
);
CREATE UNIQUE INDEX IF NOT EXISTS uq_notification_groups_open ON notification_groups (rule) WHERE closed_at IS NULL;
CREATE INDEX IF NOT EXISTS idx_notification_groups_rule ON notification_groups (rule, opened_at, group_id);
CREATE INDEX IF NOT EXISTS idx_notification_groups_closed ON notification_groups (closed_at, group_id) /* USING HASH */
  WHERE closed_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS notification_subjects (
  rule TEXT NOT NULL,
  event TEXT NOT NULL,
  subject TEXT NOT NULL,
  group_id TEXT NOT NULL,
  noted_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_notification_subjects PRIMARY KEY (rule, event, subject)
);
CREATE INDEX IF NOT EXISTS idx_notification_subjects_noted
  ON notification_subjects (noted_at, rule, event, subject) /* USING HASH */;

CREATE TABLE IF NOT EXISTS notification_conditions (
  event TEXT NOT NULL,
  rule TEXT NOT NULL,
  subject TEXT NOT NULL,
  details JSONB,
  since TIMESTAMPTZ NOT NULL DEFAULT now(),
  CONSTRAINT pk_notification_conditions PRIMARY KEY (event, rule, subject)
);
