"""Rows of the items of nodes, stored when the items start or are refused."""

from collections.abc import Sequence

from sqlalchemy import Connection

from app.features.workflows.steps.node_jobs import NodeJob
from app.features.workflows.stored.node_rows import sparse_array
from app.kernel.db.hot import run_in
from app.kernel.formats import array_literal
from app.kernel.sql import hot_statement

# An item of an earlier run is replaced. A refused item has ended, but no child has its report yet: reported_to is 0.
ITEMS = hot_statement(
    "workflow_nodes.add_items",
    """
    INSERT INTO workflow_nodes (workflow_id, node, item, name, endpoint, state, reason, message, run, job_id,
                                execution_id, ready_at, started_at, ended_at, reported_to)
    SELECT :workflow_id, u.node, u.item, u.name, u.endpoint, u.state, u.reason, u.message, u.run, u.job_id,
           u.execution_id, now(), now(), CASE WHEN u.state = 'FAILED' THEN now() END,
           CASE WHEN u.state = 'FAILED' THEN 0 END
      FROM unnest(CAST(:nodes AS BIGINT[]), CAST(:items AS BIGINT[]), CAST(:names AS TEXT[]),
                  CAST(:endpoints AS TEXT[]), CAST(:states AS TEXT[]), CAST(:reasons AS TEXT[]),
                  CAST(:messages AS TEXT[]), CAST(:runs AS BIGINT[]), CAST(:jobs AS TEXT[]),
                  CAST(:executions AS TEXT[]))
           AS u (node, item, name, endpoint, state, reason, message, run, job_id, execution_id)
    ON CONFLICT (workflow_id, node, item) DO UPDATE
       SET name = EXCLUDED.name, endpoint = EXCLUDED.endpoint, state = EXCLUDED.state, reason = EXCLUDED.reason,
           message = EXCLUDED.message, run = EXCLUDED.run, job_id = EXCLUDED.job_id,
           execution_id = EXCLUDED.execution_id, ready_at = EXCLUDED.ready_at, started_at = EXCLUDED.started_at,
           ended_at = EXCLUDED.ended_at, reported_to = EXCLUDED.reported_to
     WHERE workflow_nodes.run < EXCLUDED.run
    """,
)


def add_items(connection: Connection, workflow_id: str, items: Sequence[NodeJob]) -> None:
    """Store items that have started or were refused."""
    if items:
        params = {
            "workflow_id": workflow_id,
            "nodes": array_literal(job.key.node for job in items),
            "items": array_literal(job.key.item for job in items),
            "names": sparse_array(job.name for job in items),
            "endpoints": array_literal(job.endpoint for job in items),
            "states": array_literal(str(job.state) for job in items),
            "reasons": sparse_array(job.reason and str(job.reason) for job in items),
            "messages": sparse_array(job.message for job in items),
            "runs": array_literal(job.key.run for job in items),
            "jobs": sparse_array(job.job_id for job in items),
            "executions": sparse_array(job.execution_id for job in items),
        }
        run_in(connection, ITEMS, params)
