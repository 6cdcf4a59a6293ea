"""Chore of results: delete outputs before their executions, by the retention of endpoints."""

from app.kernel.db.paging import Position
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from app.queue.executions.execution_pruning import kept_by_a_workflow
from app.scheduler.chore import Chore, ChoreContext, Counts

BATCH = 100  # executions, with all attempts of each

_KEPT = "result_retention_ms IS NOT NULL AND result_pruned_at IS NULL AND completed_at IS NOT NULL"

# Reads the distinct retentions of a shard by the index: there are few, however many executions have each.
NEXT_RETENTION = statement(
    "results.next_retention",
    """
    SELECT result_retention_ms FROM executions
     WHERE shard = :shard AND {kept} AND result_retention_ms > :after
     ORDER BY result_retention_ms LIMIT 1
    """,
    kept=_KEPT,
)

# Starts behind the previous batch; its old index entries would otherwise be read again.
EXPIRED = statement(
    "results.expired",
    """
    SELECT execution_id, completed_at FROM executions
     WHERE shard = :shard AND {kept} AND result_retention_ms = :retention_ms
       AND (completed_at, execution_id) > (CAST(:since AS TIMESTAMPTZ), CAST(:after AS TEXT))
       AND completed_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'
     ORDER BY completed_at, execution_id LIMIT :limit
    """,
    kept=_KEPT,
)

# An execution that was retried manually in between keeps its results until it completes. For COALESCE see CLAIM.
PRUNE = statement(
    "results.prune",
    """
    WITH free AS MATERIALIZED (
      SELECT execution_id FROM executions
       WHERE execution_id = ANY (CAST(:ids AS TEXT[])) ORDER BY execution_id LIMIT :limit FOR UPDATE SKIP LOCKED),
    free_attempts AS MATERIALIZED (
      SELECT attempt_id FROM attempts WHERE execution_id IN (SELECT execution_id FROM free)
       ORDER BY attempt_id LIMIT 100000 FOR UPDATE SKIP LOCKED),
    e AS (
      UPDATE executions AS x SET output = NULL, result_pruned_at = now()
       WHERE x.execution_id = ANY (CAST(:ids AS TEXT[])) AND x.execution_id IN (SELECT execution_id FROM free)
         AND NOT EXISTS (SELECT 1 FROM attempts AS t
                          WHERE t.execution_id = x.execution_id
                            AND t.attempt_id NOT IN (SELECT attempt_id FROM free_attempts))
         AND COALESCE(result_pruned_at IS NULL
                      AND completed_at < now() - result_retention_ms * INTERVAL '1 millisecond', false)
         AND NOT {kept_by_a_workflow}
      RETURNING execution_id),
    a AS (
      UPDATE attempts SET output = NULL, error = error - CAST('body' AS TEXT)
       WHERE execution_id IN (SELECT execution_id FROM e)
      RETURNING attempt_id)
    SELECT (SELECT count(*) FROM e) AS executions,
           ARRAY(SELECT x.execution_id FROM executions AS x
                  WHERE x.execution_id = ANY (CAST(:ids AS TEXT[])) AND x.result_pruned_at IS NULL
                    AND x.completed_at IS NOT NULL AND NOT {kept_by_a_workflow}
                    AND x.execution_id NOT IN (SELECT execution_id FROM e)
                  ORDER BY x.execution_id) AS locked
    """,
    kept_by_a_workflow=kept_by_a_workflow("x"),
)


def chores(context: ChoreContext) -> list[Chore]:

    def prune_results() -> Counts:
        """Delete results older than the retention of their endpoints, the shortest retention first."""
        counts, locked = Counts(), set[str]()
        for shard in range(context.served.survey()):
            params = {"shard": shard, "after": 0}
            while not context.stopping() and (found := context.database.fetch(NEXT_RETENTION, params)):
                params["after"] = found[0].result_retention_ms
                counts.update(results=_prune(context, shard, params["after"], locked))
        names = {f"execution {each} or an attempt of it" for each in locked}
        context.skipped("results.prune", "the deletion of its result waits", names)
        return counts

    return [Chore("prune_results", 300, prune_results)]


def _prune(context: ChoreContext, shard: int, retention_ms: int, locked: set[str]) -> int:
    """Delete the expired results of one retention; return their number, and add skipped rows to `locked`."""
    pruned, after = 0, Position(EPOCH, "")
    while not context.stopping():
        params = {"shard": shard, "retention_ms": retention_ms, "limit": BATCH}
        rows = context.database.fetch(EXPIRED, params | {"since": after.at, "after": after.key})
        if rows:
            after = Position(rows[-1].completed_at, rows[-1].execution_id)
            ids = sorted(row.execution_id for row in rows)
            (done,) = context.database.fetch(PRUNE, {"ids": ids, "limit": len(ids)})
            pruned += done.executions
            locked.update(done.locked)
        if len(rows) < BATCH:
            break
    return pruned
