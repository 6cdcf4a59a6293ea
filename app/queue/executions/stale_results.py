"""Stale results: each late result that was refused is an event in the history of its execution."""

from collections.abc import Sequence

from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.ending.execution_events import ChangeReason
from app.queue.executions.completion import Completion

# The event repeats the state of the execution, which the result did not change. Its id is made from the id of the
# attempt, so a repeated statement writes nothing.
NOTE = statement(
    "executions.note_stale_results",
    """
    INSERT INTO execution_events (event_id, execution_id, from_status, to_status, attempt_number, actor, reason)
    SELECT 'evt_' || substr(u.attempt_id, 5), e.execution_id, e.status, e.status, u.attempt, CAST(:worker AS TEXT),
           :reason
      FROM unnest(CAST(:ids AS TEXT[]), CAST(:attempts AS BIGINT[]), CAST(:attempt_ids AS TEXT[]))
           AS u (execution_id, attempt, attempt_id)
      JOIN executions AS e ON e.execution_id = u.execution_id
    ON CONFLICT (event_id) DO NOTHING
    RETURNING event_id
    """,
)


def note_stale(database: Database, worker_id: str, completions: Sequence[Completion]) -> int:
    """Record results that changed nothing, because their claims were lost; returns their number."""
    params = {
        "worker": worker_id,
        "reason": ChangeReason.STALE_RESULT.value,
        "ids": [each.claim.execution_id for each in completions],
        "attempts": [each.claim.attempt for each in completions],
        "attempt_ids": [each.attempt_id for each in completions],
    }
    return len(database.fetch(NOTE, params))
