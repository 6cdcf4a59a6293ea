"""Losses of an actor: attempts that had begun it and have no outcome, counted against `max_lost` of its endpoint.

A worker that dies takes messages with it that no thread of a process had begun. Its attempts count if they have noted
the start of the actor, which only attempts after such a loss do: a note for each message would double its writes. So
the first attempt that is lost with its worker does not count, unless `max_lost` is 1: such an actor must not run twice.

A manual retry begins anew, as it grants the attempts of the retry policy anew: the operator has mended the cause.
"""

from app.queue.ending.execution_events import ChangeReason

_TYPES = "'PROCESS_LOST', 'STUCK', 'TIMEOUT'"


def since_manual_retry(execution: str) -> str:
    """Return the SQL condition that an attempt `a` of an execution comes after its latest manual retry."""
    return f"""a.attempt_number > COALESCE((SELECT max(r.attempt_number) FROM execution_events AS r
                                         WHERE r.execution_id = {execution}
                                           AND r.reason = '{ChangeReason.RETRIED_BY_HAND}'), 0)"""  # noqa: S608 - names


def has_begun(execution: str, attempt: str) -> str:
    """Return the SQL condition that an attempt has noted the start of its actor."""
    return f"""EXISTS (SELECT 1 FROM execution_events AS s
                     WHERE s.execution_id = {execution} AND s.attempt_number = {attempt}
                       AND s.reason = '{ChangeReason.ACTOR_STARTED}')"""  # noqa: S608 - names


def losses(execution: str) -> str:
    """Return the SQL of the number of losses of an execution."""
    return f"""(SELECT count(*) FROM attempts AS a
             WHERE a.execution_id = {execution} AND {since_manual_retry(execution)}
               AND (a.error->>'type' IN ({_TYPES})
                    OR a.error->>'type' = 'WORKER_LOST' AND {has_begun(execution, "a.attempt_number")}))"""  # noqa: S608 - names


def has_lost_worker(execution: str) -> str:
    """Return the SQL condition that an attempt of an execution was lost with its worker."""
    return f"""EXISTS (SELECT 1 FROM attempts AS a
                     WHERE a.execution_id = {execution} AND {since_manual_retry(execution)}
                       AND a.error->>'type' = 'WORKER_LOST')"""  # noqa: S608 - names
