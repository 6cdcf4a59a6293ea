"""Chore of expiry: fail executions that have waited behind a rule for longer than `max_age_ms` allows."""

from dataclasses import dataclass

from app.features.expiry import store
from app.scheduler.chore import Chore, ChoreContext, Counts, counts_so_far, report_progress


def chores(context: ChoreContext) -> list[Chore]:
    """Return the chores of expiry."""
    return [Chore("expire", 5, Expirer(context).expire)]


@dataclass(frozen=True, slots=True)
class Expirer:
    """Reads the executions past their `expires_at`, a page at a time, while any rule makes executions wait."""

    context: ChoreContext

    def expire(self) -> Counts:
        """Fail each execution that waits behind a rule, is past its `expires_at` and is not locked."""
        counts = counts_so_far()
        rules = store.waiting_rules(self.context.database)
        for shard in range(self.context.served.count) if rules else ():
            reached = store.START
            while not self.context.stopping():
                done = store.expire(self.context.database, rules, shard=shard, limit=self.context.batch, after=reached)
                counts.update(expired=done.ended)
                if done.seen < self.context.batch:
                    break
                reached = done.reached
                report_progress()
        return counts
