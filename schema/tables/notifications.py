"""Notifications: rules, batches of events, groups that become messages, and open alerts."""

from sqlalchemy import CheckConstraint, Column, Index, PrimaryKeyConstraint, Table, text
from sqlalchemy.dialects.postgresql import JSONB

from schema.tables.columns import count, instant, metadata, word

notification_rules = Table(
    "notification_rules",
    metadata,
    word("name", required=True),
    Column("rule_json", JSONB, nullable=False),
    count("revision", default=1),
    instant("created_at", default_now=True),
    instant("updated_at", default_now=True),
    PrimaryKeyConstraint("name", name="pk_notification_rules"),
)

# Event batches that are in no group yet: a row per batch and rule, so that writers never wait for each other.
# The table is nearly empty at all times.
notification_parts = Table(
    "notification_parts",
    metadata,
    word("rule", required=True),
    word("part_id", required=True),
    Column("tallies", JSONB, nullable=False),
    instant("created_at", default_now=True),
    PrimaryKeyConstraint("rule", "part_id", name="pk_notification_parts"),
)

# Groups of events. A group is open until it becomes a message; a rule has at most one open group.
notification_groups = Table(
    "notification_groups",
    metadata,
    word("group_id", required=True),
    word("rule", required=True),
    Column("told", JSONB, nullable=False),
    count("events", default=0),
    # Reason for waiting.
    word("waits_for"),
    instant("waits_until"),
    instant("opened_at", default_now=True),
    instant("closed_at"),
    # Result at each channel.
    Column("messages", JSONB),
    PrimaryKeyConstraint("group_id", name="pk_notification_groups"),
    CheckConstraint("(closed_at IS NULL) = (messages IS NULL)", name="chk_notification_groups_closed"),
)
Index(
    "uq_notification_groups_open", notification_groups.c.rule, unique=True, postgresql_where=text("closed_at IS NULL")
)
Index(
    "idx_notification_groups_rule",
    notification_groups.c.rule,
    notification_groups.c.opened_at,
    notification_groups.c.group_id,
)
Index(
    "idx_notification_groups_closed",
    notification_groups.c.closed_at,
    notification_groups.c.group_id,
    postgresql_where=text("closed_at IS NOT NULL"),
)

# The last group that reported a subject, for rules that suppress repetitions for a while.
notification_subjects = Table(
    "notification_subjects",
    metadata,
    word("rule", required=True),
    word("event", required=True),
    word("subject", required=True),
    word("group_id", required=True),
    instant("noted_at", default_now=True),
    PrimaryKeyConstraint("rule", "event", "subject", name="pk_notification_subjects"),
)
Index(
    "idx_notification_subjects_noted",
    notification_subjects.c.noted_at,
    notification_subjects.c.rule,
    notification_subjects.c.event,
    notification_subjects.c.subject,
)

# Open alerts, such as an open breaker: inserted when a rule reports the event, deleted when the alert ends.
notification_conditions = Table(
    "notification_conditions",
    metadata,
    word("event", required=True),
    word("rule", required=True),
    word("subject", required=True),
    # Data needed to report the end of the alert.
    Column("details", JSONB),
    instant("since", default_now=True),
    PrimaryKeyConstraint("event", "rule", "subject", name="pk_notification_conditions"),
)
