"""Series of workflows."""

import os

from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import Merge, counter, gauge, histogram
from schema.states import FINAL_OF_WORKFLOW, WorkflowStatus

_DURATION_SECONDS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
_STEP_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

# Workers, schedulers and web processes.
SUCCEEDED = counter("workflows_succeeded_total", "Workflows that succeeded.")
FAILED = counter("workflows_failed_total", "Workflows that failed, also by their deadlines.")
CANCELLED = counter("workflows_cancelled_total", "Workflows that ended after a request to cancel them.")
DURATION = histogram(
    "workflow_duration_seconds", "Time from the creation of a workflow to its end.", buckets=_DURATION_SECONDS
)
STARTED = counter("workflow_jobs_started_total", "Jobs that nodes and items of workflows became.")
STEP_SECONDS = histogram(
    "workflow_step_duration_seconds",
    "Duration of transactions that report ends of nodes and start nodes.",
    buckets=_STEP_SECONDS,
)

# Schedulers: read from the database.
OPEN = gauge(
    "workflows_open",
    "Workflows that have not ended, by status; at most 1,000 are counted for each.",
    "status",
    merge=Merge.NEWEST,
)
READY = gauge(
    "workflow_nodes_ready",
    "Nodes that may start, unless a pause or a limit holds them; at most 1,000 are counted.",
    merge=Merge.NEWEST,
)
LAG = gauge(
    "workflow_step_lag_seconds",
    "Age of the oldest end of a node that no step has reported; at most 1,000 are compared.",
    merge=Merge.NEWEST,
)

ENDED = {
    status: {WorkflowStatus.SUCCEEDED: SUCCEEDED, WorkflowStatus.CANCELLED: CANCELLED}.get(status, FAILED)
    for status in FINAL_OF_WORKFLOW
}
"""Counters of ended workflows by status."""


def begin() -> None:
    """Report the counters of this process before their first count."""
    for each in (STARTED, *ENDED.values()):
        PROCESS.begin(each)


# The process that builds the application forks the web processes, which forget its counts (app.kernel.metrics).
os.register_at_fork(after_in_child=begin)
