"""Chore of breakers: delete breakers that nobody needs any more, and their history."""

from functools import partial

from app.features.breakers import breaker_pruning
from app.scheduler.chore import BATCH, Chore, ChoreContext, Counts


def chores(context: ChoreContext) -> list[Chore]:
    """Return the chores of breakers."""
    database = context.database

    def prune_breakers() -> Counts:
        """Delete the breakers that nobody needs any more, their counts, and events older than the retention."""
        forget = partial(breaker_pruning.forget, database, limit=BATCH)
        breakers = partial(breaker_pruning.prune, database, limit=BATCH)
        events = partial(breaker_pruning.prune_events, database, retention_ms=context.retention_ms, limit=BATCH)
        return Counts(
            forgotten=context.until_short(forget),
            breakers=context.until_short(breakers),
            breaker_counts=breaker_pruning.prune_counts(database, limit=BATCH, stopping=context.stopping),
            breaker_events=context.until_short(events, 1),
        )

    return [Chore("prune_breakers", 60, prune_breakers)]
