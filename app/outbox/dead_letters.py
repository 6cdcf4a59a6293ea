"""Dead letters: what has failed waits for somebody to see to it."""

from app.executions.ending.letters import leave_letters
from app.executions.ending.outbox import End
from app.outbox.effect import Effect
from schema.states import ExecutionStatus


def _concerns(end: End) -> bool:
    return end.status is ExecutionStatus.FAILED and not end.is_rejected


DEAD_LETTERS = Effect("dead_letters", _concerns, leave_letters)
