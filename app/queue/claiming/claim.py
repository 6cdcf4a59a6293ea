"""Claims: take what is due in several partitions at once, and list what a worker has claimed."""

import time
from collections.abc import Sequence

from app.kernel.db import Database
from app.kernel.sql import hot_statement, statement
from app.queue.claiming.arms import ANY_RULES, MOST_ARMS, answer, arms, parameters, take
from app.queue.claiming.partition import Wanted
from app.queue.claiming.taken import Taken
from app.queue.executions.database_clock import DatabaseClock
from app.queue.executions.execution_model import ClaimKey


def _claim(count: int) -> str:
    return f"WITH {arms(count)},\n    claimed AS ({take('due')}){answer()}"


# By their numbers of arms: one that takes nothing costs a little all the same.
CLAIM_1 = hot_statement("executions.claim_1", _claim(1))
CLAIM_4 = hot_statement("executions.claim_4", _claim(4))
CLAIM_16 = hot_statement("executions.claim_16", _claim(MOST_ARMS))

CLAIMS_OF = statement(
    "executions.claims_of",
    """
    SELECT execution_id, attempt_count, started_at FROM executions
     WHERE worker_id = :worker AND status = 'RUNNING' AND queue = :queue ORDER BY execution_id
    """,
)


def claim(
    database: Database,
    *,
    queue: str,
    worker_id: str,
    wanted: Sequence[Wanted],
    ahead_ms: int,
    flow_revision: int = ANY_RULES,
    clock: DatabaseClock | None = None,
) -> Taken:
    """Claim what is due within `ahead_ms` in up to MOST_ARMS partitions, in one statement.

    Nothing where the rules are newer than `flow_revision`, which the answer tells.
    The `clock` knows from earlier claims better when this one began.
    When it raises UnavailableError the database may have claimed all the same: see `claims_of`.
    """
    few = len(wanted)
    count, statement = (1, CLAIM_1) if few == 1 else (4, CLAIM_4) if few <= 4 else (MOST_ARMS, CLAIM_16)
    params = parameters(wanted, count)
    params.update(queue=queue, worker=worker_id, ahead_ms=ahead_ms, flow_revision=flow_revision)
    asked_at = time.monotonic()
    rows = database.fetch(statement, params, repeatable=False)
    return Taken.of(rows, wanted, queue=queue, worker_id=worker_id, asked_at=asked_at, clock=clock)


def claims_of(database: Database, worker_id: str, queue: str) -> set[ClaimKey]:
    """Return the claims that a worker has on a queue, according to the database."""
    rows = database.fetch(CLAIMS_OF, {"worker": worker_id, "queue": queue})
    return {ClaimKey(row.execution_id, row.attempt_count, row.started_at) for row in rows}
