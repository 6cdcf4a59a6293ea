"""Gauges of workflows: open workflows, nodes that may start, and the lag of steps, by bounded reads."""

from collections.abc import Mapping

from app.features.workflows import metrics
from app.kernel.db import Database
from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import Series
from app.kernel.metrics.values import Labels, Values
from app.kernel.sql import statement
from app.scheduler.chore import Chore, ChoreContext, Counts
from schema.states import FINAL_OF_WORKFLOW, WorkflowStatus

REPORT_SECONDS = 15.0
MOST = 1_000
UNFINISHED = tuple(status for status in WorkflowStatus if status not in FINAL_OF_WORKFLOW)

OPEN = statement(
    "workflows.count_open",
    """
    SELECT count(*) AS n FROM (
      SELECT workflow_id FROM workflows WHERE status = :status ORDER BY created_at, workflow_id LIMIT {most}) AS found
    """,
    most=MOST,
)
READY = statement(
    "workflow_nodes.count_ready",
    """
    SELECT count(*) AS n FROM (
      SELECT node FROM workflow_nodes WHERE state IN ('READY', 'EXPANDING')
       ORDER BY workflow_id, node, item LIMIT {most}) AS found
    """,
    most=MOST,
)
LAG = statement(
    "workflow_nodes.lag",
    """
    SELECT COALESCE(CAST(EXTRACT(EPOCH FROM (now() - min(ended_at))) AS DOUBLE PRECISION), 0) AS seconds FROM (
      SELECT ended_at FROM workflow_nodes WHERE reported_to IS NOT NULL
       ORDER BY workflow_id, node, item LIMIT {most}) AS found
    """,
    most=MOST,
)


def chores(context: ChoreContext) -> list[Chore]:
    """Return the chore that sets the gauges; none without TE_SCHEDULER_METRICS_ADDR."""

    def report() -> Counts:
        set_gauges(context.database, PROCESS)
        return Counts()

    return [Chore("report_workflows", REPORT_SECONDS, report)] if context.settings.scheduler_metrics_addr else []


def set_gauges(database: Database, values: Values) -> None:
    """Read and set the gauges; after an error they are missing, because old values would look like a quiet service."""
    gauges: dict[Series, Mapping[Labels, float]] = {metrics.OPEN: {}, metrics.READY: {}, metrics.LAG: {}}
    try:
        gauges = {
            metrics.OPEN: {
                (status.value.lower(),): database.fetch(OPEN, {"status": status.value})[0].n for status in UNFINISHED
            },
            metrics.READY: {(): database.fetch(READY)[0].n},
            metrics.LAG: {(): max(0.0, database.fetch(LAG)[0].seconds)},
        }
    finally:
        for gauge, found in gauges.items():
            values.replace(gauge, found)
