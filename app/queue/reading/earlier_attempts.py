"""Earlier attempts of an execution, for transports that avoid duplicates."""

from datetime import timedelta
from typing import Any, NamedTuple

from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.executions.actor_losses import has_lost_worker, losses, since_manual_retry
from schema.tables.executions import IS_UNCERTAIN

# Start of the first failed attempt that may have been delivered.
UNCERTAIN = statement(
    "executions.uncertain",
    """
    SELECT now() AS now, min(started_at) AS since FROM attempts
     WHERE execution_id = :execution_id AND {is_uncertain}
    """,
    is_uncertain=IS_UNCERTAIN,
)

# Outcome of a message in each channel, from the error of one failed attempt.
CHANNELS = statement(
    "executions.channels",
    """
    SELECT error->'channels' AS channels FROM attempts
     WHERE execution_id = :execution_id AND attempt_number = :attempt AND status = 'FAILED'
    """,
)

# Losses of an actor, and the error with which it asked for the latest attempt.
ACTOR_PAST = statement(
    "executions.actor_past",
    """
    SELECT {losses} AS lost, {has_lost_worker} AS has_lost_worker,
           (SELECT a.error FROM attempts AS a
             WHERE a.execution_id = :execution_id AND a.error->'options' IS NOT NULL AND {since_manual_retry}
             ORDER BY a.attempt_number DESC LIMIT 1) AS last_error
    """,
    losses=losses(":execution_id"),
    has_lost_worker=has_lost_worker(":execution_id"),
    since_manual_retry=since_manual_retry(":execution_id"),
)


def uncertain_for(database: Database, execution_id: str) -> timedelta | None:
    """Return the time since the start of the first failed attempt that may have been delivered; None if none may."""
    (row,) = database.fetch(UNCERTAIN, {"execution_id": execution_id})
    return None if row.since is None else row.now - row.since


def channels_of(database: Database, execution_id: str, attempt: int) -> list[dict[str, Any]]:
    """Return the outcome of a failed attempt in each notification channel; empty if unknown."""
    rows = database.fetch(CHANNELS, {"execution_id": execution_id, "attempt": attempt})
    return (rows[0].channels or []) if rows else []


class ActorPast(NamedTuple):
    """Losses of an actor, whether one may be of its worker only, and the error that asked for the next attempt."""

    lost: int
    has_lost_worker: bool
    last_error: dict[str, Any]


def actor_past(database: Database, execution_id: str) -> ActorPast:
    """Read the earlier attempts of an actor since the latest manual retry."""
    (row,) = database.fetch(ACTOR_PAST, {"execution_id": execution_id})
    return ActorPast(row.lost, row.has_lost_worker, row.last_error or {})
