"""Notifications: rules that tell people what happens, and what they have still to tell."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0030"
down_revision = "0029"

TABLES = {
    "notification_rules": (
        "name TEXT NOT NULL, rule_json JSONB NOT NULL, revision BIGINT DEFAULT 1 NOT NULL, "
        "created_at TIMESTAMPTZ DEFAULT now() NOT NULL, updated_at TIMESTAMPTZ DEFAULT now() NOT NULL, "
        "CONSTRAINT pk_notification_rules PRIMARY KEY (name)"
    ),
    "notification_parts": (
        "rule TEXT NOT NULL, part_id TEXT NOT NULL, tallies JSONB NOT NULL, "
        "created_at TIMESTAMPTZ DEFAULT now() NOT NULL, "
        "CONSTRAINT pk_notification_parts PRIMARY KEY (rule, part_id)"
    ),
    "notification_groups": (
        "group_id TEXT NOT NULL, rule TEXT NOT NULL, told JSONB NOT NULL, events BIGINT DEFAULT 0 NOT NULL, "
        "revision BIGINT DEFAULT 1 NOT NULL, waits_for TEXT, waits_until TIMESTAMPTZ, "
        "opened_at TIMESTAMPTZ DEFAULT now() NOT NULL, closed_at TIMESTAMPTZ, messages JSONB, "
        "CONSTRAINT pk_notification_groups PRIMARY KEY (group_id), "
        "CONSTRAINT chk_notification_groups_closed CHECK ((closed_at IS NULL) = (messages IS NULL))"
    ),
    "notification_subjects": (
        "rule TEXT NOT NULL, event TEXT NOT NULL, subject TEXT NOT NULL, group_id TEXT NOT NULL, "
        "noted_at TIMESTAMPTZ DEFAULT now() NOT NULL, "
        "CONSTRAINT pk_notification_subjects PRIMARY KEY (rule, event, subject)"
    ),
    "notification_conditions": (
        "event TEXT NOT NULL, rule TEXT NOT NULL, subject TEXT NOT NULL, details JSONB, "
        "since TIMESTAMPTZ DEFAULT now() NOT NULL, "
        "CONSTRAINT pk_notification_conditions PRIMARY KEY (event, rule, subject)"
    ),
}


def upgrade() -> None:
    """Create the tables; each step may be repeated."""
    for name, columns in TABLES.items():
        op.execute(text(f"CREATE TABLE IF NOT EXISTS {name} ({columns})"))
    online.create_index(
        "uq_notification_groups_open", "notification_groups", ["rule"], unique=True, where="closed_at IS NULL"
    )
    online.create_index("idx_notification_groups_rule", "notification_groups", ["rule", "opened_at", "group_id"])
    online.create_index(
        "idx_notification_groups_closed",
        "notification_groups",
        ["closed_at", "group_id"],
        where="closed_at IS NOT NULL",
        leads_with_time=True,
    )
    online.create_index(
        "idx_notification_subjects_noted",
        "notification_subjects",
        ["noted_at", "rule", "event", "subject"],
        leads_with_time=True,
    )
    op.execute(
        text("INSERT INTO catalog_revision (id, revision) VALUES ('notifications', 0) ON CONFLICT (id) DO NOTHING")
    )


def downgrade() -> None:
    """Drop them: nobody is told of anything any more."""
    op.execute(text("DELETE FROM catalog_revision WHERE id = 'notifications'"))
    for name in TABLES:
        op.execute(text(f"DROP TABLE IF EXISTS {name}"))
