"""Notifier: the chores that notice what rules tell of, and make messages of what was noted."""

import logging
from functools import partial

from app.features.notifications import notification_pruning
from app.features.notifications.group_sending import go_on, waiting
from app.features.notifications.watching import Watcher
from app.scheduler.chore import BATCH, Chore, ChoreContext, Counts, counts_so_far, got_on

log = logging.getLogger(__name__)


def chores(context: ChoreContext) -> list[Chore]:
    """Return the chores of notifications."""
    notifier = Notifier(context)
    return [
        Chore("watch", 5, notifier.watch),
        Chore("notify", 2, notifier.notify),
        Chore("prune_notifications", 3600, notifier.prune_notifications),
    ]


class Notifier:
    """Watches and notifies for one scheduler."""

    def __init__(self, context: ChoreContext) -> None:
        self._context = context
        self._watcher = Watcher(context.database)

    def watch(self) -> Counts:
        """Note what has begun, or is over, of what goes on for a while."""
        return Counts(noted=self._watcher.look())

    def notify(self) -> Counts:
        """Gather what was noted for each rule, and make messages of the groups whose time has come."""
        counts = counts_so_far()
        for rule in waiting(self._context.database):
            is_all = False
            while not is_all and not self._context.stopping():
                try:
                    done = go_on(self._context.database, rule)
                except (LookupError, ValueError):  # of what a newer release has noted: it holds up no other rule
                    log.exception("the messages of the notification rule %s could not be made", rule)
                    break
                is_all = done.is_all
                counts.update(messages=done.messages, refused=done.refused, repeated=done.repeated)
                self._context.hint_all(done.queues)
                got_on()
        return counts

    def prune_notifications(self) -> Counts:
        """Delete groups that were told before the retention, and remains of rules that are gone."""
        database, retention_ms = self._context.database, self._context.retention_ms
        groups = partial(notification_pruning.prune_groups, database, retention_ms=retention_ms, limit=BATCH)
        subjects = partial(notification_pruning.prune_subjects, database, limit=BATCH)
        pruned = sum(self._context.until_short(each) for each in (groups, subjects))
        pruned += self._context.until_short(lambda: sum(notification_pruning.prune_astray(database, limit=BATCH)), 1)
        return Counts(notifications=pruned)
