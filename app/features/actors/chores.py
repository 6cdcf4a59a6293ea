"""Chore of actors: delete expired values of rate limiters and barriers."""

from app.kernel.db.deletion import deletion
from app.scheduler.chore import Chore, ChoreContext, Counts

# An hour later: a key that is used again within it keeps its row. The log names no keys, which may be values of inputs.
PRUNE = deletion(
    "limiter_values.prune",
    "limiter_values",
    ["key", "party"],
    "expires_at < now() - INTERVAL '1 hour'",
    pages=True,
    shown=["party"],
)


def chores(context: ChoreContext) -> list[Chore]:

    def prune_limiter_values() -> Counts:
        return Counts(limiter_values=context.delete(PRUNE, {"since": ["", ""]}))

    return [Chore("prune_limiter_values", 3600, prune_limiter_values)]
