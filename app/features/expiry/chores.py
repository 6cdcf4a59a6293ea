"""Chore of expiry: fail executions that have waited behind a rule for longer than `max_age_ms` allows."""

from app.features.expiry import store
from app.kernel.db.paging import Position
from app.scheduler.chore import Chore, ChoreContext, Counts, counts_so_far, report_progress


def chores(context: ChoreContext) -> list[Chore]:
    def expire() -> Counts:
        """Fail each execution that waits behind a rule, is past its `expires_at` and is not locked."""
        counts, locked = counts_so_far(), set[str]()
        rules = store.waiting_rules(context.database)
        for shard in range(context.served.count) if rules else ():
            after: Position | None = store.START
            while after is not None and not context.stopping():
                after, ended, skipped = store.expire(
                    context.database, rules, shard=shard, limit=context.batch, after=after
                )
                counts.update(expired=ended)
                locked.update(f"execution {row.execution_id} or its job" for row in skipped)
                if after is not None:
                    report_progress()
        context.skipped("expire", "it does not expire", locked)
        return counts

    return [Chore("expire", 5, expire)]
