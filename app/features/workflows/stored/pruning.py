"""Deletion of workflows that ended before the retention: a mark, nodes, edges and events in batches, then the row."""

from collections.abc import Mapping

from app.kernel.db.deletion import deletion
from app.kernel.db.paging import Position
from app.kernel.formats import EPOCH
from app.kernel.sql import NamedStatement, statement
from app.scheduler.chore import ChoreContext, Counts

DELETED = -1
"""Revision of a workflow whose rows are being deleted."""

_IS_OLD = "ended_at < now() - CAST(:retention_ms AS BIGINT) * INTERVAL '1 millisecond'"
_OF_WORKFLOW = "workflow_id = CAST(:workflow_id AS TEXT)"

OLD = statement(
    "workflows.old",
    """
    SELECT workflow_id, ended_at FROM workflows
     WHERE ended_at IS NOT NULL AND {is_old}
       AND (ended_at, workflow_id) > (CAST(:since AS TIMESTAMPTZ), CAST(:after AS TEXT))
     ORDER BY ended_at, workflow_id LIMIT :limit
    """,
    is_old=_IS_OLD,
)
# A retry, which would need all nodes, changes a workflow only by the revision that it read.
MARK = statement(
    "workflows.mark_for_deletion",
    """
    WITH found AS MATERIALIZED (
      SELECT workflow_id FROM workflows WHERE {of_workflow} AND {is_old}
       ORDER BY workflow_id LIMIT 1 FOR UPDATE SKIP LOCKED),
    marked AS (
      UPDATE workflows SET revision = {deleted}
       WHERE {of_workflow} AND {is_old} AND workflow_id IN (SELECT workflow_id FROM found) RETURNING workflow_id)
    SELECT EXISTS (SELECT 1 FROM marked) AS is_marked FROM workflows WHERE {of_workflow} AND {is_old}
    """,
    of_workflow=_OF_WORKFLOW,
    is_old=_IS_OLD,
    deleted=DELETED,
)
CHILDREN = [
    deletion("workflow_nodes.prune", "workflow_nodes", ["workflow_id", "node", "item"], _OF_WORKFLOW),
    deletion("workflow_edges.prune", "workflow_edges", ["workflow_id", "parent", "child"], _OF_WORKFLOW),
    deletion("workflow_events.prune", "workflow_events", ["event_id"], _OF_WORKFLOW),
]
WORKFLOW = deletion(
    "workflows.prune",
    "workflows",
    ["workflow_id"],
    f"""{_OF_WORKFLOW} AND {_IS_OLD}
        AND NOT EXISTS (SELECT 1 FROM workflow_nodes AS n WHERE n.workflow_id = workflows.workflow_id)
        AND NOT EXISTS (SELECT 1 FROM workflow_edges AS e WHERE e.workflow_id = workflows.workflow_id)
        AND NOT EXISTS (SELECT 1 FROM workflow_events AS v WHERE v.workflow_id = workflows.workflow_id)""",  # noqa: S608 - constants of this module
)


def prune(context: ChoreContext) -> Counts:
    """Delete workflows that ended before the retention, oldest first."""
    counts, locked, after = Counts(), set[str](), Position(EPOCH, "")
    params = {"retention_ms": context.retention_ms, "limit": context.batch}
    while not context.stopping():
        rows = context.database.fetch(OLD, params | {"since": after.at, "after": after.key})
        for row in rows:
            of_workflow = params | {"workflow_id": row.workflow_id}
            marked = context.database.fetch(MARK, of_workflow)
            if not marked or not marked[0].is_marked:
                locked.update(f"row {row.workflow_id} of workflows" for _ in marked)
                continue
            for children in CHILDREN:
                _delete(context, children, of_workflow, locked)
            counts.update(workflows=_delete(context, WORKFLOW, of_workflow, locked))
        if len(rows) < context.batch:
            break
        after = Position(rows[-1].ended_at, rows[-1].workflow_id)
    context.skipped("workflows.prune", "its deletion waits", locked)
    return counts


def _delete(context: ChoreContext, rows: NamedStatement, params: Mapping[str, object], locked: set[str]) -> int:
    """Delete the rows of one workflow; return their number, and add the names of locked rows."""

    def batch() -> int:
        (done,) = context.database.fetch(rows, params)
        locked.update(done.locked)
        return int(done.deleted)

    # Another scheduler can make a batch short, so only an empty batch is the end.
    return context.until_short(batch, 1)
