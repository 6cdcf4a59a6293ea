"""Chore of results: delete outputs before their executions, by the retention of endpoints."""

from app.features.results import store
from app.kernel.formats import EPOCH
from app.scheduler.chore import Chore, ChoreContext, Counts


def chores(context: ChoreContext) -> list[Chore]:

    def prune_results() -> Counts:
        """Delete results older than the retention of their endpoints, the shortest retention first."""
        counts = Counts()
        for shard in range(context.served.survey()):
            retention_ms: int | None = 0
            while retention_ms is not None and not context.stopping():
                if retention_ms:
                    counts.update(results=_prune_shard(context, shard, retention_ms))
                retention_ms = store.next_retention(context.database, shard=shard, after=retention_ms)
        return counts

    return [Chore("prune_results", 300, prune_results)]


def _prune_shard(context: ChoreContext, shard: int, retention_ms: int) -> int:
    pruned, since = 0, EPOCH
    while not context.stopping():
        found, since = store.expired(
            context.database, shard=shard, retention_ms=retention_ms, since=since, limit=store.BATCH
        )
        pruned += store.prune(context.database, found) if found else 0
        if len(found) < store.BATCH:
            break
    return pruned
