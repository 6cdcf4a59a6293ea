"""Handler of completion events: settles the executions of nodes, and advances their workflows."""

import time
from collections.abc import Sequence

from sqlalchemy import Connection

from app.features.workflows import metrics
from app.features.workflows.steps import advancing, joint_step
from app.features.workflows.steps.node_settlement import EndedExecution, settle
from app.kernel.db import Database
from app.queue.ending.handler import Handler, HandlerResult
from app.queue.ending.outbox_rows import End
from schema.states import Followed


def _concerns(end: End) -> bool:
    return Followed.NODE in end.followed and end.is_final


def _ended(ends: Sequence[End]) -> list[EndedExecution]:
    return [EndedExecution.of(end.execution_id, end.status, end.reason, end.ended_at) for end in ends]


def _apply(connection: Connection, ends: Sequence[End]) -> HandlerResult:
    return HandlerResult(follow_ups={*settle(connection, _ended(ends))})


def _apply_together(connection: Connection, ends: Sequence[End]) -> HandlerResult:
    """Make a joint step if it is possible, else settle."""
    began = time.monotonic()
    made = joint_step.make(connection, _ended(ends))
    if made is None:
        return _apply(connection, ends)
    counts, durations = advancing.series_of(made, time.monotonic() - began)
    return HandlerResult(made.queues, counts, [made.workflow_id], durations, made.ends)


def _follow_up(database: Database, workflow_id: str) -> HandlerResult:
    # Without work, no step is tried: a lock held for nothing would turn away the step of another process.
    if not advancing.has_work(database, workflow_id):
        return HandlerResult()
    done = advancing.step(database, workflow_id)
    return HandlerResult(done.queues, follow_ups=[workflow_id] if done.has_work else [], ends=done.ends)


_SERIES = (*dict.fromkeys(metrics.ENDED.values()), metrics.DURATION, metrics.STARTED, metrics.STEP_SECONDS)
WORKFLOWS = Handler(
    "workflows", _concerns, _apply, apply_together=_apply_together, counters=_SERIES, follow_up=_follow_up
)
