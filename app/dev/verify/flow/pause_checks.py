"""Check of paused queues: a pure function from the evidence to its breaches."""

from collections.abc import Iterator

from app.dev.verify.evidence import Evidence
from schema.states import ExecutionStatus

_RUNNING = ExecutionStatus.RUNNING


def nothing_claimed_from_a_paused_queue(evidence: Evidence) -> Iterator[str]:
    """Find claims whose transaction began after the API had answered a pause and before the request to resume."""
    endpoints = {execution.execution_id: execution.endpoint for execution in evidence.executions}
    for change in evidence.transitions or ():
        pauses = evidence.queue_pauses.get(endpoints.get(change.execution_id, ""), ())
        if change.at is None or change.after is not _RUNNING or change.before is _RUNNING:
            continue
        for pause in pauses:
            if pause.since < change.at < pause.until:
                yield f"{change.execution_id}: claimed at {change.at}, its queue was paused at {pause.since}"
