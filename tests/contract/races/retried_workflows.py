"""Retried workflows in races: the run to the end, and the breaches found then."""

from typing import Protocol

import pytest
from sqlalchemy import TextClause, text

from app.features.workflows import control
from app.features.workflows.rules.retry_plan import RetryRequest
from app.features.workflows.steps import advancing, retrying
from app.kernel.db import Database
from app.queue.executions import node_retry
from schema.states import FINAL_OF_WORKFLOW
from tests.contract.features.workflows import flows
from tests.contract.races.workflow_sides import outbox

FAILED = RetryRequest(failed=True)

# Counts of the workflow that differ from its rows, places with other than one execution, nodes that differ from their
# executions, nodes that were skipped for no reason, and nodes that started before their parents had ended.
BREACHES = text(
    """
    SELECT 'counts' AS what, CAST(w.open_nodes AS TEXT) || ' ' || w.succeeded || ' ' || w.failed || ' ' || w.cancelled
           || ' ' || w.skipped || ' ' || w.running AS found
      FROM workflows AS w
     WHERE (w.open_nodes, w.succeeded, w.failed, w.cancelled, w.skipped, w.running) <> (
       SELECT count(*) FILTER (WHERE ended_at IS NULL), count(*) FILTER (WHERE state = 'SUCCEEDED'),
              count(*) FILTER (WHERE state = 'FAILED'), count(*) FILTER (WHERE state = 'CANCELLED'),
              count(*) FILTER (WHERE state = 'SKIPPED'), count(*) FILTER (WHERE state = 'RUNNING')
         FROM workflow_nodes AS n WHERE n.workflow_id = w.workflow_id AND n.item = 0)
    UNION ALL
    SELECT 'executions', j.idempotency_key FROM jobs AS j
     WHERE (SELECT count(*) FROM executions AS e WHERE e.job_id = j.job_id) <> 1
    UNION ALL
    SELECT 'ends', n.name FROM workflow_nodes AS n JOIN executions AS e ON e.execution_id = n.execution_id
     WHERE (e.status, n.state) NOT IN (('SUCCESS', 'SUCCEEDED'), ('FAILED', 'FAILED'), ('CANCELLED', 'CANCELLED'))
    UNION ALL
    SELECT 'runs', n.name FROM workflow_nodes AS n
     WHERE n.execution_id IS NOT NULL
       AND n.run <> (SELECT count(*) FROM jobs AS j
                      WHERE j.idempotency_key LIKE concat_ws(':', 'te:node', n.workflow_id, n.node, n.item, '%'))
    UNION ALL
    SELECT 'skipped', n.name FROM workflow_nodes AS n
     WHERE n.reason = 'UPSTREAM'
       AND NOT EXISTS (SELECT 1 FROM workflow_edges AS e
                         JOIN workflow_nodes AS p ON p.workflow_id = e.workflow_id AND p.node = e.parent
                        WHERE e.workflow_id = n.workflow_id AND e.child = n.node
                          AND (p.state IN ('FAILED', 'CANCELLED') OR p.reason IN ('UPSTREAM', 'STOPPED')))
    UNION ALL
    SELECT 'parents', c.name FROM workflow_nodes AS c
      JOIN workflow_edges AS e ON e.workflow_id = c.workflow_id AND e.child = c.node
      JOIN workflow_nodes AS p ON p.workflow_id = e.workflow_id AND p.node = e.parent
     WHERE c.started_at < p.ended_at AND c.definition->>'run_if' = 'all_succeeded'
    """
)


class Raced(Protocol):
    """A workflow whose sides have run."""

    workflow_id: str

    def end(self, database: Database) -> None:
        """Handle the completion events of the scene."""


def finish(database: Database, scene: Raced) -> list[str]:
    """Run the workflow to its end; returns the breaches."""
    for _ in range(3):
        scene.end(database)
        if flows.status(database, scene.workflow_id) == "PAUSED":
            control.resume(database, scene.workflow_id, actor=None)
        flows.run(database, scene.workflow_id)
        left = [row.end_id for row in database.fetch(text("SELECT end_id FROM execution_ends"))]
        outbox(left, database)
    found = [f"{row.what}: {row.found}" for row in database.fetch(BREACHES)]
    status = flows.status(database, scene.workflow_id)
    if status not in FINAL_OF_WORKFLOW:
        return [*found, f"is {status}"]
    return found


def unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (retrying, control, advancing):
        sql = module.LOCK.text
        stripped = sql.replace("FOR UPDATE SKIP LOCKED", "").replace("FOR UPDATE", "")
        assert stripped != sql
        monkeypatch.setattr(module, "LOCK", text(stripped))


def remove_touch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a retry of an execution leave the revision of its workflow as it is."""
    monkeypatch.setattr(node_retry, "TOUCH", text("SELECT CAST(:workflows AS TEXT[])"))


def without(statement: TextClause, *parts: str) -> TextClause:
    sql = statement.text
    for part in parts:
        assert part in sql
        sql = sql.replace(part, "")
    return text(sql)
