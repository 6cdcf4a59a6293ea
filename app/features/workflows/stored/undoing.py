"""Compensations as stored: `n` is the row of a node, `s` of its job or of an item, `c` of a compensation."""

from typing import NamedTuple

from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.executions.node_key import undone_item
from schema.tables.workflows import MAY_BE_UNDONE

NODES = """
    WITH n AS MATERIALIZED (
      SELECT n.workflow_id, n.node, n.name, n.run, n.ended_at,
             n.definition->'compensate' AS compensation, n.definition->'group' AS members
        FROM workflow_nodes AS n
       WHERE n.workflow_id = :workflow_id AND n.item = 0 AND {may_be_undone})"""
"""Nodes whose jobs may be undone. A definition may have a megabyte and thousands of items, so it is unpacked once."""

COMPENSATION = "COALESCE(n.compensation, n.members->CAST(s.item - 1 AS INTEGER)->'compensate')"
"""Definition of the compensation of `s`; NULL if it has none."""

IS_UNDOABLE = f"""s.item >= 0 AND s.run = n.run AND s.state = 'SUCCEEDED' AND s.execution_id IS NOT NULL
                 AND {COMPENSATION} IS NOT NULL"""
"""Condition that `s` succeeded in the current run of its node and has a compensation."""

UNDONE = statement(
    "workflow_nodes.count_undone",
    """{nodes}
    SELECT count(*) AS undoable,
           count(*) FILTER (WHERE EXISTS (SELECT 1 FROM workflow_nodes AS c
                                           WHERE c.workflow_id = s.workflow_id AND c.node = s.node AND c.run = s.run
                                             AND c.item = -1 - s.item AND c.state = 'SUCCEEDED')) AS undone
      FROM n JOIN workflow_nodes AS s ON s.workflow_id = n.workflow_id AND s.node = n.node
     WHERE {is_undoable}
    """,
    nodes=NODES.format(may_be_undone=MAY_BE_UNDONE),
    is_undoable=IS_UNDOABLE,
)
CURRENT = statement(
    "workflow_nodes.current_compensation",
    """
    SELECT n.name, c.item, c.state, c.reason, c.message
      FROM workflow_nodes AS n JOIN workflow_nodes AS c ON c.workflow_id = n.workflow_id AND c.node = n.node
     WHERE n.workflow_id = :workflow_id AND n.item = 0 AND c.item < 0 AND c.run = n.run AND c.state <> 'SUCCEEDED'
     ORDER BY n.node, c.item LIMIT 1
    """,
)


class Undoing(NamedTuple):
    """Progress of a compensation: the number of jobs that have or had to be undone, and how many are.

    `current` names the job whose compensation runs or failed, with its state.
    """

    undoable: int
    undone: int
    current: str | None = None
    state: str | None = None
    reason: str | None = None
    message: str | None = None


def read_undoing(database: Database, workflow_id: str) -> Undoing:
    """Read the progress of the compensation of a workflow."""
    key = {"workflow_id": workflow_id}
    (counts,) = database.fetch(UNDONE, key)
    rows = database.fetch(CURRENT, key)
    if not rows:
        return Undoing(counts.undoable, counts.undone)
    row, item = rows[0], undone_item(rows[0].item)
    name = f"item {item} of {row.name}" if item else row.name
    return Undoing(counts.undoable, counts.undone, name, row.state, row.reason, row.message)
