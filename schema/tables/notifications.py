"""Notifications: rules, what has happened that they tell of, and the groups that become messages."""

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

# What has happened and is in no group yet: a row for each batch and rule, so that no two writers wait for each other.
# Nearly empty at all times.
notification_parts = Table(
    "notification_parts",
    metadata,
    word("rule", required=True),
    word("part_id", required=True),
    Column("tallies", JSONB, nullable=False),
    instant("created_at", default_now=True),
    PrimaryKeyConstraint("rule", "part_id", name="pk_notification_parts"),
)

# A group is open until it becomes a message: one of each rule at most.
notification_groups = Table(
    "notification_groups",
    metadata,
    word("group_id", required=True),
    word("rule", required=True),
    Column("told", JSONB, nullable=False),
    count("events", default=0),
    count("revision", default=1),
    # Why it waits.
    word("waits_for"),
    instant("waits_until"),
    instant("opened_at", default_now=True),
    instant("closed_at"),
    # What became of it at each channel.
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

# The group that a subject was last told of in, of rules that do not repeat it for a while.
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

# What goes on, such as a breaker that is open: noted when a rule was told of it, deleted when it is over.
notification_conditions = Table(
    "notification_conditions",
    metadata,
    word("event", required=True),
    word("rule", required=True),
    word("subject", required=True),
    # What is needed to tell of its end.
    Column("details", JSONB),
    instant("since", default_now=True),
    PrimaryKeyConstraint("event", "rule", "subject", name="pk_notification_conditions"),
)
