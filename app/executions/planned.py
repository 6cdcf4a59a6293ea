"""Planned instants: from when on an execution was to start, whatever has put it off since."""

from datetime import datetime
from typing import NamedTuple

from app.db import Database
from app.executions.events import Reason
from app.sql import statement

# A tick that is made up for is due once it was created, and what somebody asks for is due anew.
PLANNED = statement(
    "executions.planned",
    """
    SELECT GREATEST(e.scheduled_at, e.created_at, COALESCE(noted.asked_at, e.created_at)) AS since,
           noted.was_handed_back
      FROM executions AS e
     CROSS JOIN (SELECT max(CASE WHEN reason = ANY (CAST(:asked AS TEXT[])) THEN occurred_at END) AS asked_at,
                        count(CASE WHEN reason = 'HANDED_BACK' THEN 1 END) > 0 AS was_handed_back
                   FROM execution_events WHERE execution_id = :execution_id) AS noted
     WHERE e.execution_id = :execution_id
    """,
)
_ASKED = [Reason.RETRIED_BY_HAND, Reason.RUN_BY_HAND, Reason.JOB_RESUMED]


class Planned(NamedTuple):
    """Since when an execution has been due by the database's clock, and whether its history tells of a release."""

    since: datetime
    was_handed_back: bool


def planned(database: Database, execution_id: str) -> Planned | None:
    """Read since when an execution has been due; None where it is gone."""
    rows = database.fetch(PLANNED, {"execution_id": execution_id, "asked": [reason.value for reason in _ASKED]})
    return Planned(rows[0].since, rows[0].was_handed_back) if rows else None
