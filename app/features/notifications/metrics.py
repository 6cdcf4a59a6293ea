"""Series of notifications."""

from app.kernel.metrics.series import counter

NOTIFICATION_CONFLICTS = counter(
    "notification_conflicts_total",
    "Runs that sent no message of a notification rule because a channel or the group was changing; the next run "
    "retries.",
)
NOTIFICATION_EVENTS = counter(
    "notification_events_total", "Events recorded for notification rules, counted once for each matching rule."
)
NOTIFICATIONS_FAILED = counter("notifications_failed_total", "Messages of notification rules that failed for good.")
NOTIFICATIONS_SENT = counter(
    "notifications_sent_total", "Messages of notification rules that became jobs, one for each channel."
)
NOTIFICATIONS_SUPPRESSED = counter(
    "notifications_suppressed_total",
    "Suppressed notifications: messages that a channel's payload spec refused (`refused`), and events "
    "whose subject was already reported (`repeated`).",
    "reason",
)
