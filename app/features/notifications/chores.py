"""Chores that detect events, send messages and prune old groups."""

from sqlalchemy.exc import SQLAlchemyError

from app.features.notifications.group_sending import WAITING, advance, waiting
from app.features.notifications.metrics import NOTIFICATION_CONFLICTS, NOTIFICATIONS_SENT, NOTIFICATIONS_SUPPRESSED
from app.features.notifications.store import ALL
from app.features.notifications.watching import Detector
from app.kernel.db.deletion import deletion
from app.kernel.errors import UnavailableError
from app.kernel.metrics import PROCESS
from app.kernel.unreadable import report
from app.scheduler.chore import Chore, ChoreContext, Counts, counts_so_far, report_progress

# Longer than the maximum of `repeat_after_seconds`; a shorter retention does not apply.
LEAST_MS = 8 * 24 * 3600 * 1000

PRUNE_GROUPS = deletion(
    "notifications.prune_groups",
    "notification_groups",
    ["group_id"],
    "closed_at IS NOT NULL AND closed_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'",
    time="closed_at",
)
PRUNE_SUBJECTS = deletion(
    "notifications.prune_subjects",
    "notification_subjects",
    ["rule", "event", "subject"],
    "noted_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'",
    time="noted_at",
    shown=["rule", "event"],
)


def chores(context: ChoreContext) -> list[Chore]:
    database = context.database
    for counter in (NOTIFICATIONS_SENT, NOTIFICATION_CONFLICTS):
        PROCESS.begin(counter)
    PROCESS.begin(NOTIFICATIONS_SUPPRESSED, ["refused", "repeated"])

    def notify() -> Counts:
        """Group the event batches of each rule and send the groups that are due."""
        counts, locked = counts_so_far(), list[str]()
        for rule in waiting(database):
            is_all = False
            while not is_all and not context.stopping():
                try:
                    done = advance(database, rule)
                except (UnavailableError, SQLAlchemyError):
                    raise
                except Exception as error:  # noqa: BLE001 - rows may hold anything; other rules continue
                    report(f"groups of notification rule {rule}", error)
                    break
                is_all = done.is_all
                if done.is_locked:
                    locked.append(f"notification rule {rule} or a row of it")
                counts.update(messages=done.messages, refused=done.refused, repeated=done.repeated)
                context.hint_all(done.queues)
                report_progress()
        context.skipped("notify", "its messages wait", locked)
        return counts

    def prune_notifications() -> Counts:
        """Delete groups that were sent before the retention, and subjects that no rule can still suppress."""
        groups = context.delete(PRUNE_GROUPS, {"retention_ms": max(context.retention_ms, LEAST_MS)})
        return Counts(notifications=groups + context.delete(PRUNE_SUBJECTS, {"retention_ms": LEAST_MS}))

    return [
        Chore("watch", 5, Detector(database).poll, condition=ALL),
        Chore("notify", 2, notify, condition=WAITING),
        Chore("prune_notifications", 3600, prune_notifications),
    ]
