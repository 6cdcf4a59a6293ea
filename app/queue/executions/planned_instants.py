"""Planned instants: from when on an execution was to start, whatever has put it off since."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from app.kernel.db import Database
from app.kernel.sql import statement
from app.queue.ending.execution_events import Reason

# A tick that is made up for is due once it was created, and what somebody asks for is due anew.
PLANNED = statement(
    "executions.planned",
    """
    SELECT e.execution_id, GREATEST(e.scheduled_at, e.created_at, COALESCE(noted.asked_at, e.created_at)) AS since,
           COALESCE(noted.was_handed_back, false) AS was_handed_back
      FROM executions AS e
      LEFT JOIN (SELECT execution_id, count(CASE WHEN reason = 'HANDED_BACK' THEN 1 END) > 0 AS was_handed_back,
                        max(CASE WHEN reason = ANY (CAST(:asked AS TEXT[])) THEN occurred_at END) AS asked_at
                   FROM execution_events WHERE execution_id = ANY (CAST(:ids AS TEXT[]))
                  GROUP BY execution_id) AS noted
        ON noted.execution_id = e.execution_id
     WHERE e.execution_id = ANY (CAST(:ids AS TEXT[]))
    """,
)
_ASKED = [Reason.RETRIED_BY_HAND, Reason.RUN_BY_HAND, Reason.RESCHEDULED, Reason.JOB_RESUMED]


class Planned(NamedTuple):
    """Since when an execution has been due by the database's clock, and whether its history tells of a release."""

    since: datetime
    was_handed_back: bool


def planned(database: Database, execution_ids: Sequence[str]) -> dict[str, Planned]:
    """Read since when executions have been due, by their ids, without those that are gone."""
    rows = database.fetch(PLANNED, {"ids": execution_ids, "asked": [reason.value for reason in _ASKED]})
    return {row.execution_id: Planned(row.since, row.was_handed_back) for row in rows}
