"""Advance of a workflow: steps that report ends and start nodes, until nothing is left to do.

A step is one transaction. It locks the row of the workflow, or leaves if another step holds the lock. It is committed
only if the revision that it read is still current, so a lost lock does no harm. After the commit, the step looks for
work again: an end that was written while the step held the lock found the workflow locked.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from app.features.workflows import metrics
from app.features.workflows.steps import cancelling, compensating, execution_end, reopening, reporting, starting
from app.features.workflows.steps.node_jobs import EndpointChangedError
from app.features.workflows.steps.step import OpenWorkflow, StepOvertakenError, WorkflowStep
from app.features.workflows.stored import node_rows
from app.features.workflows.stored.status_changes import StatusChange, record_event
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.db.hot import run_in
from app.kernel.function_types import Hint, Stopping, never, nobody
from app.kernel.metrics import PROCESS
from app.kernel.metrics.series import Series
from app.kernel.sql import hot_statement
from schema.states import FINAL_OF_NODE, FINAL_OF_WORKFLOW

# New executions have the shards and the look-ahead of te_enqueue: a worker's outbox has no settings.
LOCK = hot_statement(
    "workflows.lock",
    """
    WITH found AS MATERIALIZED (
      SELECT workflow_id, name, labels, status, reason, on_failure, compensates, max_parallel, cancelling,
             open_nodes, running, revision, trace_context, execution_id, ended_at IS NOT NULL AS is_over
        FROM workflows WHERE workflow_id = :workflow_id AND revision >= 0
       ORDER BY workflow_id LIMIT 1 FOR UPDATE SKIP LOCKED)
    SELECT found.*, {is_marked} AS is_marked, {has_ready} AS has_ready,
           COALESCE((SELECT shards FROM enqueue_settings WHERE id = 'enqueue'), 1) AS shards,
           COALESCE((SELECT look_ahead_ms FROM enqueue_settings WHERE id = 'enqueue'), 0) AS look_ahead_ms
      FROM found WHERE NOT is_over OR {is_marked}
    """,
    is_marked=node_rows.is_marked("found"),
    has_ready=node_rows.has_ready("found"),
)
FINISH = hot_statement(
    "workflows.finish_step",
    """
    UPDATE workflows
       SET revision = revision + 1, status = :status, reason = :reason,
           compensates = CAST(:compensates AS BOOLEAN), running = running + CAST(:running AS BIGINT),
           open_nodes = open_nodes - CAST(:ended AS BIGINT),
           succeeded = succeeded + CAST(:succeeded AS BIGINT), failed = failed + CAST(:failed AS BIGINT),
           cancelled = cancelled + CAST(:cancelled AS BIGINT), skipped = skipped + CAST(:skipped AS BIGINT),
           ended_at = CASE WHEN CAST(:is_final AS BOOLEAN) THEN now() END
     WHERE workflow_id = :workflow_id AND revision = :revision AND ended_at IS NULL
    RETURNING CAST(EXTRACT(EPOCH FROM (ended_at - created_at)) AS DOUBLE PRECISION) AS seconds
    """,
)
# A paused workflow starts nothing. A workflow at its limit starts nothing either, unless it stops: it skips nodes then.
LOOK = hot_statement(
    "workflows.look",
    """
    SELECT (w.cancelling IS NOT NULL
            OR EXISTS (SELECT 1 FROM workflow_nodes AS n WHERE n.workflow_id = :workflow_id
                                                           AND n.reported_to IS NOT NULL)
            OR {is_marked}
            OR w.status <> 'PAUSED' AND (w.max_parallel IS NULL OR w.running < w.max_parallel OR w.reason IS NOT NULL)
               AND {has_ready}) AS has_work
      FROM workflows AS w
     WHERE w.workflow_id = :workflow_id AND w.revision >= 0 AND (w.ended_at IS NULL OR {is_marked})
    """,
    is_marked=node_rows.is_marked("w"),
    has_ready=node_rows.has_ready("w"),
)


class StepResult(NamedTuple):
    """Numbers of executions that became due, by queue, whether there is more work, and ids of written events."""

    queues: Mapping[str, int]
    has_work: bool
    ends: Sequence[str] = ()


def advance(database: Database, workflow_id: str, *, until: Stopping, hint: Hint = nobody) -> list[str]:
    """Make steps while the workflow has work; returns the ids of the completion events that they wrote.

    Args:
        database: Database of the service.
        workflow_id: Id of the workflow; nothing happens if it has ended.
        until: Returns True once no further step shall begin; other processes make the rest of the steps.
        hint: Wakes the workers of a queue in which executions became due.
    """
    ends = list[str]()
    while not until():
        done = step(database, workflow_id)
        ends += done.ends
        for queue in done.queues:
            hint(queue)
        if not done.has_work:
            break
    return ends


def for_seconds(seconds: float, *, or_until: Stopping = never) -> Stopping:
    """Return a condition that ends an advance after some seconds, or earlier."""
    ends_at = time.monotonic() + seconds
    return lambda: or_until() or time.monotonic() >= ends_at


def step(database: Database, workflow_id: str) -> StepResult:
    """Make one step, and look whether more work is left.

    A step without changes is made once more if there is work: an end was written while the first one held the lock.
    """
    began = time.monotonic()
    try:
        made = database.transact(partial(_make, workflow_id))
        if made is not None and not made.has_changed and has_work(database, workflow_id):
            made = database.transact(partial(_make, workflow_id))
    except (StepOvertakenError, EndpointChangedError):
        return StepResult({}, has_work=True)
    if made is None or not made.has_changed:
        return StepResult({}, has_work=False)
    _count(made, time.monotonic() - began)
    return StepResult(made.queues, has_work(database, workflow_id), made.ends)


def has_work(database: Database, workflow_id: str) -> bool:
    """Return whether a step could change the workflow."""
    return any(row.has_work for row in database.fetch(LOOK, {"workflow_id": workflow_id}))


def series_of(made: WorkflowStep, seconds: float) -> tuple[dict[Series, int], list[tuple[Series, float]]]:
    """Return the additions of a committed step to counters and to histograms."""
    counts, durations = {metrics.STARTED: made.started}, [(metrics.STEP_SECONDS, seconds)]
    if made.lasted_seconds is not None:
        counts[metrics.ENDED[made.status]] = 1
        durations.append((metrics.DURATION, made.lasted_seconds))
    return counts, durations


def _count(made: WorkflowStep, seconds: float) -> None:
    counts, durations = series_of(made, seconds)
    for series, amount in counts.items():
        PROCESS.add(series, amount=amount)
    for series, value in durations:
        PROCESS.observe(series, value)


def begin(connection: Connection, workflow_id: str) -> WorkflowStep | None:
    """Lock a workflow for a step; None if another step holds it, or it can no longer change."""
    rows = run_in(connection, LOCK, {"workflow_id": workflow_id})
    return WorkflowStep.of(OpenWorkflow.from_row(rows[0])) if rows else None


def start_and_finish(connection: Connection, made: WorkflowStep) -> None:
    """Start nodes after a step has reported ends, and finish the step; raises StepOvertakenError."""
    starting.start(connection, made)
    if made.has_changed and made.is_through and made.is_undone:
        compensating.start_next(connection, made)
    if made.has_changed:
        _finish(connection, made)


def _make(workflow_id: str, connection: Connection) -> WorkflowStep | None:
    made = begin(connection, workflow_id)
    if made is None:
        return None
    if made.workflow.is_marked:
        reopening.take_back(connection, made)
    elif made.workflow.is_plain:
        reporting.report(connection, made)
        start_and_finish(connection, made)
    else:
        if made.workflow.cancelling is not None:
            # Alone, because it locks executions, which a completion locks before it waits for nodes.
            cancelling.cancel_some(connection, made)
        else:
            compensating.go_on(connection, made)
        if made.has_changed:
            _finish(connection, made)
    return made


def _finish(connection: Connection, made: WorkflowStep) -> None:
    before, after = made.workflow.status, made.status
    params = {
        "workflow_id": made.workflow_id,
        "revision": made.workflow.revision,
        "status": after.value,
        "reason": made.reason and made.reason.value,
        "compensates": made.compensates,
        "running": made.running,
        "ended": made.ended.total(),
        "is_final": after in FINAL_OF_WORKFLOW,
    }
    params |= {state.value.lower(): made.ended[state] for state in FINAL_OF_NODE}
    rows = run_in(connection, FINISH, params)
    if not rows:
        raise StepOvertakenError
    made.lasted_seconds = rows[0].seconds
    if after in FINAL_OF_WORKFLOW and made.workflow.execution_id is not None:
        made.ends += execution_end.end_attempt(connection, made.workflow_id, after, made.reason)
    if after is not before:
        record_event(connection, ids.event_id(), StatusChange(made.workflow_id, before, after, made.reason), actor=None)
