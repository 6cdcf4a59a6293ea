"""Chore of limits: delete limiter rows that nobody needs any more."""

from app.features.limits import store
from app.scheduler.chore import BATCH, Chore, ChoreContext, Counts


def chores(context: ChoreContext) -> list[Chore]:
    """Return the chores of limits."""

    def prune_gates() -> Counts:
        """Delete the gates of keys and endpoints through which nothing went for long."""
        counts = Counts()
        after: str | None = ""
        while after is not None and not context.stopping():
            after, deleted = store.prune(context.database, after=after, limit=BATCH)
            counts.update(gates=deleted)
        return counts

    return [Chore("prune_gates", 3600, prune_gates)]
