"""Notifier: the chores that detect events, send messages and prune old groups."""

import logging
from functools import partial

from app.features.notifications import notification_pruning
from app.features.notifications.group_sending import advance, waiting
from app.features.notifications.watching import Detector
from app.scheduler.chore import BATCH, Chore, ChoreContext, Counts, counts_so_far, got_on

log = logging.getLogger(__name__)


def chores(context: ChoreContext) -> list[Chore]:
    notifier = Notifier(context)
    return [
        Chore("watch", 5, notifier.watch),
        Chore("notify", 2, notifier.notify),
        Chore("prune_notifications", 3600, notifier.prune_notifications),
    ]


class Notifier:
    """Chores of one scheduler."""

    def __init__(self, context: ChoreContext) -> None:
        self._context = context
        self._detector = Detector(context.database)

    def watch(self) -> Counts:
        """Open and close the alerts of lost workers, open breakers and lateness."""
        return Counts(noted=self._detector.poll())

    def notify(self) -> Counts:
        """Group the event batches of each rule and send the groups that are due."""
        counts = counts_so_far()
        for rule in waiting(self._context.database):
            is_all = False
            while not is_all and not self._context.stopping():
                try:
                    done = advance(self._context.database, rule)
                except (LookupError, ValueError):  # written by a newer release; must not block other rules
                    log.exception("could not send messages of notification rule %s; retrying in the next run", rule)
                    break
                is_all = done.is_all
                counts.update(messages=done.messages, refused=done.refused, repeated=done.repeated)
                self._context.hint_all(done.queues)
                got_on()
        return counts

    def prune_notifications(self) -> Counts:
        """Delete groups that were sent before the retention, and expired subjects."""
        database, retention_ms = self._context.database, self._context.retention_ms
        groups = partial(notification_pruning.prune_groups, database, retention_ms=retention_ms, limit=BATCH)
        subjects = partial(notification_pruning.prune_subjects, database, limit=BATCH)
        pruned = sum(self._context.until_short(each) for each in (groups, subjects))
        return Counts(notifications=pruned)
