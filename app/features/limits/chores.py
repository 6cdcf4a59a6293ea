"""Chore of limits: delete idle limiter rows."""

from app.features.limits import store
from app.scheduler.chore import Chore, ChoreContext, Counts


def chores(context: ChoreContext) -> list[Chore]:

    def prune_limiters() -> Counts:
        counts = Counts()
        after: str | None = ""
        while after is not None and not context.stopping():
            after, deleted = store.prune(context.database, after=after, limit=context.batch)
            counts.update(limiters=deleted)
        return counts

    return [Chore("prune_limiters", 3600, prune_limiters)]
