"""Flow state: revisions, requests to abort and breakers, which a worker process reads in one statement."""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from app.features.breakers.rules import StoredBreaker
from app.features.breakers.store import NOTABLE, standing_of
from app.kernel.db import Database
from app.kernel.sql import hot_statement

# A row for each breaker; a single row if there is none. An index has the open requests to abort only.
FLOW_STATE = hot_statement(
    "flow.state",
    """
    SELECT c.revision AS flow_revision,
           COALESCE((SELECT revision FROM catalog_revision WHERE id = 'catalog'), 0) AS catalog_revision,
           a.executions, a.attempts, a.claimed, b.*
      FROM catalog_revision AS c
      CROSS JOIN (SELECT array_agg(execution_id ORDER BY execution_id) AS executions,
                         array_agg(attempt_count ORDER BY execution_id) AS attempts,
                         array_agg(started_at ORDER BY execution_id) AS claimed
                    FROM executions
                   WHERE worker_id = :worker AND status = 'RUNNING' AND abort_requested_at IS NOT NULL) AS a
      LEFT JOIN ({notable}) AS b ON true
     WHERE c.id = 'flow'
    """,
    notable=NOTABLE,
)

Aborts = list[tuple[str, int, datetime]]
"""Claims whose attempt is to be aborted, as `app.queue.executions.execution_model.ClaimKey` has them."""


class FlowState(NamedTuple):
    """Answer to the statement; `aborts` are of the worker's own claims, `breakers` open, half open or watched."""

    revision: int  # of the rules
    catalog_revision: int
    aborts: Aborts
    breakers: Sequence[StoredBreaker] = ()


def read_flow_state(database: Database, worker_id: str) -> FlowState:
    """Read revisions, requests to abort and breakers."""
    asked_at = time.monotonic()
    rows = database.fetch(FLOW_STATE, {"worker": worker_id})
    first = rows[0]
    aborts = Aborts(zip(first.executions, first.attempts, first.claimed, strict=True)) if first.executions else []
    breakers = [standing_of(row, asked_at) for row in rows if row.target is not None]
    return FlowState(first.flow_revision, first.catalog_revision, aborts, breakers)
