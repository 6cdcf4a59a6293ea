"""Losses of an actor: attempts without an outcome, counted against `max_lost` of its endpoint.

A manual retry begins anew, as it grants the attempts of the retry policy anew: the operator has mended the cause.
"""

from app.queue.ending.execution_events import ChangeReason

_TYPES = "'PROCESS_LOST', 'WORKER_LOST', 'STUCK', 'TIMEOUT'"


def since_manual_retry(execution: str) -> str:
    """Return the SQL condition that an attempt `a` of an execution comes after its latest manual retry."""
    return f"""a.attempt_number > COALESCE((SELECT max(r.attempt_number) FROM execution_events AS r
                                         WHERE r.execution_id = {execution}
                                           AND r.reason = '{ChangeReason.RETRIED_BY_HAND}'), 0)"""  # noqa: S608 - names


def losses(execution: str) -> str:
    """Return the SQL of the number of losses of an execution."""
    return f"""(SELECT count(*) FROM attempts AS a
             WHERE a.execution_id = {execution} AND a.error->>'type' IN ({_TYPES})
               AND {since_manual_retry(execution)})"""  # noqa: S608 - names
