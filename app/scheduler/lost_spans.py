"""Spans of attempts that the scheduler has ended in place of their workers, where somebody wants them.

A worker that dies takes the spans of its attempts with it. Those of the scheduler have their ids, so what the receiver
has recorded below them finds its place.
"""

import logging
from collections.abc import Sequence

from opentelemetry.trace import Status, StatusCode
from sqlalchemy.exc import SQLAlchemyError

from app.kernel.db import Database
from app.kernel.db.retries import explained
from app.kernel.errors import UnavailableError
from app.kernel.sql import statement
from app.kernel.tracing import attempt_spans
from app.kernel.tracing.exporting import Exporting
from schema.states import AttemptStatus

log = logging.getLogger(__name__)

ENDED = statement(
    "executions.taken_back",
    """
    SELECT a.execution_id, a.attempt_number AS attempt, a.worker_id, a.started_at, a.completed_at, a.status,
           a.error->>'type' AS error_type, a.error->>'message' AS message,
           e.job_id, e.endpoint, e.endpoint_type, e.queue,
           COALESCE(e.trace_context, j.trace_context) AS trace_context
      FROM attempts AS a
      JOIN executions AS e ON e.execution_id = a.execution_id
      JOIN jobs AS j ON j.job_id = e.job_id
     WHERE a.attempt_id = ANY (CAST(:attempt_ids AS TEXT[]))
    """,
)


def record(database: Database, exporting: Exporting, attempt_ids: Sequence[str]) -> None:
    """Record those of the attempts that were ended; what goes wrong costs their spans and nothing else."""
    try:
        rows = database.fetch(ENDED, {"attempt_ids": list(attempt_ids)}) if attempt_ids else []
        for row in rows:
            span = attempt_spans.begin(exporting, row, [], round(row.started_at.timestamp() * 1e9))
            span.set_attribute("error.type", row.error_type)
            if row.status == AttemptStatus.FAILED:
                span.set_status(Status(StatusCode.ERROR, row.message))
            span.end(round(row.completed_at.timestamp() * 1e9))
    except (UnavailableError, SQLAlchemyError) as error:
        log.warning("spans of lost attempts are missing: %s", explained(error))
