"""Chore of limits: delete idle limiter rows."""

from app.features.limits import store
from app.scheduler.chore import Chore, ChoreContext, Counts


def chores(context: ChoreContext) -> list[Chore]:

    def prune_limiters() -> Counts:
        counts, all_locked = Counts(), list[str]()
        after: str | None = ""
        while after is not None and not context.stopping():
            after, deleted, locked = store.prune(context.database, after=after, limit=context.batch)
            counts.update(limiters=deleted)
            all_locked += locked
        # The id of a limiter ends with a limit key, which is a value of inputs.
        endpoints = {each.partition("=")[0] for each in all_locked}
        names = {f"a limiter of endpoint {endpoint}" for endpoint in endpoints}
        context.skipped(store.PRUNE.name, "its deletion waits", names)
        return counts

    return [Chore("prune_limiters", 3600, prune_limiters)]
