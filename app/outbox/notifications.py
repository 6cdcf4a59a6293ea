"""Notifications: what rules tell people of a failure is noted; a scheduler makes messages of it."""

from app.executions.ending.outbox import End
from app.notifications.ends import note_failures
from app.outbox.effect import Effect
from schema.states import ExecutionStatus


def _concerns(end: End) -> bool:
    return end.status is ExecutionStatus.FAILED and not end.is_rejected


NOTIFICATIONS = Effect("notifications", _concerns, note_failures)
