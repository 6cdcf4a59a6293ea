"""Checks of workflows for `flask doctor`: ends that no step reports or settles, and workflows that stand still.

Steps and chores leave none of these for a minute. Each check reads a bounded number of rows.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import takewhile

from app.features.workflows import chores
from app.kernel.sql import statement
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import MAX_COUNTED, START_SCHEDULER, Finding, counted, listed
from schema.states import FINAL_OF_WORKFLOW, WorkflowStatus

MAX_READ = 10_000  # running nodes
MAX_RUNS = 1_000  # of the chore, for a repair
_LATE = "now() - INTERVAL '60 seconds'"
_MOVING = sorted(status.value for status in WorkflowStatus if status not in FINAL_OF_WORKFLOW | {WorkflowStatus.PAUSED})

UNREPORTED = statement(
    "workflow_nodes.count_unreported",
    """
    SELECT count(*) AS n FROM (
      SELECT node FROM workflow_nodes WHERE reported_to IS NOT NULL AND ended_at < {late}
       ORDER BY workflow_id, node, item LIMIT {most}) AS found
    """,
    late=_LATE,
    most=MAX_COUNTED,
)
RUNNING = """
    WITH running AS MATERIALIZED (
      SELECT workflow_id, node, item, job_id, execution_id, items, started_at FROM workflow_nodes
       WHERE state = 'RUNNING' ORDER BY workflow_id, node, item LIMIT {most})"""
UNSETTLED = statement(
    "workflow_nodes.count_unsettled",
    """{running}
    SELECT count(*) AS n FROM running AS n LEFT JOIN executions AS e ON e.execution_id = n.execution_id
     WHERE n.execution_id IS NOT NULL AND n.started_at < {late}
       AND (e.execution_id IS NULL OR COALESCE(e.completed_at < {late}, false))
    """,
    running=RUNNING.format(most=MAX_READ),
    late=_LATE,
)
WITHOUT_JOB = statement(
    "workflow_nodes.without_job",
    """{running}
    SELECT DISTINCT n.workflow_id FROM running AS n
     WHERE n.execution_id IS NULL AND n.job_id IS NULL AND n.items IS NULL AND n.started_at < {late}
     ORDER BY n.workflow_id
    """,
    running=RUNNING.format(most=MAX_READ),
    late=_LATE,
)
# Each moving workflow has an end to report, a node that may start, a running node, or executions to cancel.
STANDING = statement(
    "workflows.standing",
    """
    WITH found AS MATERIALIZED (
      SELECT workflow_id FROM workflows
       WHERE status = :status AND cancelling IS NULL AND created_at < {late}
       ORDER BY created_at, workflow_id LIMIT {most})
    SELECT workflow_id FROM found AS w
     WHERE NOT EXISTS (SELECT 1 FROM workflow_nodes AS n
                        WHERE n.workflow_id = w.workflow_id AND n.reported_to IS NOT NULL)
       AND NOT EXISTS (SELECT 1 FROM workflow_nodes AS n
                        WHERE n.workflow_id = w.workflow_id AND n.state IN ('READY', 'EXPANDING'))
       AND NOT EXISTS (SELECT 1 FROM workflow_nodes AS n WHERE n.workflow_id = w.workflow_id AND n.state = 'RUNNING')
     ORDER BY workflow_id
    """,
    late=_LATE,
    most=MAX_COUNTED,
)


def late_nodes(context: ChoreContext) -> Iterator[Finding]:
    """Find ends of nodes that were not reported, and ends of executions that were not settled."""
    for query, problem in (
        (UNREPORTED, "are not reported to the nodes behind"),
        (UNSETTLED, "are not settled after the end of an execution"),
    ):
        (row,) = context.database.fetch(query)
        if row.n:
            fix = f"--fix continues the workflows, as a scheduler would within seconds; {START_SCHEDULER}"
            yield Finding("workflows", counted(row.n, "node", problem), fix, partial(_continue, context))


def standing_workflows(context: ChoreContext) -> Iterator[Finding]:
    """Find workflows in which nothing runs, may start or is to be reported, and running nodes without a job."""
    found = [row.workflow_id for status in _MOVING for row in context.database.fetch(STANDING, {"status": status})]
    yield from _changed_by_hand(found, "in which nothing runs or can start, by a manual edit")
    found = [row.workflow_id for row in context.database.fetch(WITHOUT_JOB)]
    yield from _changed_by_hand(found, "with a running node without a job, by a manual edit")


def _changed_by_hand(workflow_ids: Sequence[str], problem: str) -> Iterator[Finding]:
    if workflow_ids:
        fix = f"restore the rows of their nodes, since a cancellation would not end them: {listed(workflow_ids)}"
        yield Finding("workflows", f"{counted(len(workflow_ids), 'workflow')} {problem}", fix)


def _continue(context: ChoreContext) -> int:
    """Run the chore of workflows until it finds nothing, or the process stops."""
    (chore,) = (each for each in chores.chores(context) if each.name == "workflows")
    runs = (0 if context.stopping() else sum(chore.run().values()) for _ in range(MAX_RUNS))
    return sum(takewhile(bool, runs))
