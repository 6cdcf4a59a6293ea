"""Chore of results: delete outputs before their executions, by the retention of endpoints."""

from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from app.scheduler.chore import Chore, ChoreContext, Counts

BATCH = 100  # executions, with all attempts of each

_KEPT = "result_retention_ms IS NOT NULL AND result_pruned_at IS NULL AND completed_at IS NOT NULL"

# Reads the distinct retentions of a shard by the index: there are few, however many executions have each.
NEXT_RETENTION = statement(
    "results.next_retention",
    f"""
    SELECT result_retention_ms FROM executions
     WHERE shard = :shard AND {_KEPT} AND result_retention_ms > :after
     ORDER BY result_retention_ms LIMIT 1
    """,  # noqa: S608 - a constant of this module
)

# Starts behind the previous batch; its old index entries would otherwise be read again.
EXPIRED = statement(
    "results.expired",
    f"""
    SELECT execution_id, completed_at FROM executions
     WHERE shard = :shard AND {_KEPT} AND result_retention_ms = :retention_ms
       AND completed_at >= CAST(:since AS TIMESTAMPTZ)
       AND completed_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'
     ORDER BY completed_at, execution_id LIMIT :limit
    """,  # noqa: S608 - a constant of this module
)

# An execution that was retried manually in between keeps its results until it completes. For COALESCE see CLAIM.
PRUNE = statement(
    "results.prune",
    """
    WITH e AS (
      UPDATE executions SET output = NULL, result_pruned_at = now()
       WHERE execution_id = ANY (CAST(:ids AS TEXT[]))
         AND COALESCE(result_pruned_at IS NULL
                      AND completed_at < now() - result_retention_ms * INTERVAL '1 millisecond', false)
      RETURNING execution_id),
    a AS (
      UPDATE attempts SET output = NULL, error = error - CAST('body' AS TEXT)
       WHERE execution_id IN (SELECT execution_id FROM e)
      RETURNING attempt_id)
    SELECT count(*) AS executions FROM e
    """,
)


def chores(context: ChoreContext) -> list[Chore]:

    def prune_results() -> Counts:
        """Delete results older than the retention of their endpoints, the shortest retention first."""
        counts = Counts()
        for shard in range(context.served.survey()):
            params = {"shard": shard, "after": 0}
            while not context.stopping() and (found := context.database.fetch(NEXT_RETENTION, params)):
                params["after"] = found[0].result_retention_ms
                counts.update(results=_prune(context, shard, retention_ms=params["after"]))
        return counts

    return [Chore("prune_results", 300, prune_results)]


def _prune(context: ChoreContext, shard: int, *, retention_ms: int) -> int:
    """Delete the expired results of one retention; return the number of executions changed."""
    pruned, since = 0, EPOCH
    while not context.stopping():
        params = {"shard": shard, "retention_ms": retention_ms, "since": since, "limit": BATCH}
        rows = context.database.fetch(EXPIRED, params)
        if rows:
            since = rows[-1].completed_at
            pruned += context.database.fetch(PRUNE, {"ids": sorted(row.execution_id for row in rows)})[0].executions
        if len(rows) < BATCH:
            break
    return pruned
