"""Notifications: rules, batches of events, groups that become messages, and open alerts."""

from schema.tables.columns import check, count, index, instant, json, table, word

notification_rules = table(
    "notification_rules",
    word("name", key=True),
    json("rule_json", required=True),
    count("revision", default=1),
    instant("created_at", default_now=True),
    instant("updated_at", default_now=True),
)

# Event batches that are in no group yet: a row per batch and rule, so that writers never wait for each other.
# The table is nearly empty at all times.
notification_parts = table(
    "notification_parts",
    word("rule", key=True),
    word("part_id", key=True),
    json("tallies", required=True),
    instant("created_at", default_now=True),
)

# Groups of events. A group is open until it becomes a message; a rule has at most one open group.
notification_groups = table(
    "notification_groups",
    word("group_id", key=True),
    word("rule", required=True),
    json("told", required=True),
    count("events", default=0),
    # Reason for waiting.
    word("waits_for"),
    instant("waits_until"),
    instant("opened_at", default_now=True),
    instant("closed_at"),
    # Result at each channel.
    json("messages"),
    check("chk_notification_groups_closed", "(closed_at IS NULL) = (messages IS NULL)"),
    index("uq_notification_groups_open", "rule", unique=True, where="closed_at IS NULL"),
    index("idx_notification_groups_rule", "rule, opened_at, group_id"),
    index("idx_notification_groups_closed", "closed_at, group_id", where="closed_at IS NOT NULL"),
)

# The last group that reported a subject, for rules that suppress repetitions for a while.
notification_subjects = table(
    "notification_subjects",
    word("rule", key=True),
    word("event", key=True),
    word("subject", key=True),
    word("group_id", required=True),
    instant("noted_at", default_now=True),
    index("idx_notification_subjects_noted", "noted_at, rule, event, subject"),
)

# Open alerts, such as an open breaker: inserted when a rule reports the event, deleted when the alert ends.
notification_conditions = table(
    "notification_conditions",
    word("event", key=True),
    word("rule", key=True),
    word("subject", key=True),
    # Data needed to report the end of the alert.
    json("details"),
    instant("since", default_now=True),
)
