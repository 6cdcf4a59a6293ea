"""Upkeep: the small chores of the kernel."""

from app.queue.jobs import time_zones, unfinished_changes
from app.scheduler.chore import ChoreContext, Counts


class Upkeep:
    """Chores that keep nothing between two runs but whether the time zones were followed."""

    def __init__(self, context: ChoreContext) -> None:
        self._context = context
        self._follows_zones = False

    def follow_time_zones(self) -> Counts:
        """Move next runs that were computed by other time zone rules; once, since a process never changes its own."""
        if self._follows_zones:
            return Counts()
        moved = time_zones.follow_rules(
            self._context.database,
            ahead_ms=self._context.ahead_ms,
            limit=self._context.batch,
            stopping=self._context.stopping,
        )
        self._follows_zones = not self._context.stopping()
        return Counts(moved=moved)

    def survey_shards(self) -> Counts:
        """Find the shards that hold executions although the setting does not know them."""
        self._context.served.survey()
        return Counts()

    def finish(self) -> Counts:
        """End the changes of jobs with very many executions that a request was cut off from."""
        done = unfinished_changes.finish(
            self._context.database, self._context.ahead_ms, limit=self._context.batch, stopping=self._context.stopping
        )
        self._context.hint_all(done.queues)
        return Counts(finished=done.changes)
