"""Notifier: the chores that notice what rules tell of, and make messages of what was noted."""

import logging

from app.features.notifications.group_sending import go_on, waiting
from app.features.notifications.watching import Watcher
from app.kernel.db import Database
from app.scheduler.chore import Counts, Hint, Stopping, counts_so_far, got_on

log = logging.getLogger(__name__)


class Notifier:
    """Watches and notifies for one scheduler; `hint` is told the queues in which messages wait."""

    def __init__(self, database: Database, *, hint: Hint, stopping: Stopping) -> None:
        self._database = database
        self._watcher = Watcher(database)
        self._hint = hint
        self._stopping = stopping

    def watch(self) -> Counts:
        """Note what has begun, or is over, of what goes on for a while."""
        return Counts(noted=self._watcher.look())

    def notify(self) -> Counts:
        """Gather what was noted for each rule, and make messages of the groups whose time has come."""
        counts = counts_so_far()
        for rule in waiting(self._database):
            is_all = False
            while not is_all and not self._stopping():
                try:
                    done = go_on(self._database, rule)
                except (LookupError, ValueError):  # of what a newer release has noted: it holds up no other rule
                    log.exception("the messages of the notification rule %s could not be made", rule)
                    break
                is_all = done.is_all
                counts.update(messages=done.messages, refused=done.refused, repeated=done.repeated)
                for queue in done.queues:
                    self._hint(queue)
                got_on()
        return counts
