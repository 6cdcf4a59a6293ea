"""Check of several idle queues by one statement: which of them have executions that are due now or soon."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from app.kernel.db import Database
from app.kernel.sql import hot_statement, of_regions
from schema.states import EndpointType

QUEUES = len(EndpointType)  # per statement: the queues of the transports


# One range of the index per queue, written out like those of a poll. Its first entry is the answer, so a backlog costs
# nothing. PostgreSQL ignores an order inside EXISTS, and would choose another index.
def _checks() -> str:
    arms = ", ".join(
        f"""
      (SELECT run_at FROM executions
        WHERE queue = :queue_{number} AND shard = 0 AND status IN ('QUEUED', 'RETRYING')
          AND run_at >= CAST(:since AS TIMESTAMPTZ)
          AND run_at <= now() + CAST(:horizon_ms AS BIGINT) * INTERVAL '1 millisecond'{of_regions()}
        ORDER BY run_at, execution_id LIMIT 1) AS due_{number}"""  # noqa: S608
        for number in range(QUEUES)
    )
    return f"SELECT now() AS db_now, {arms}"


CHECK = hot_statement("executions.due_queues", _checks())


class DueQueues(NamedTuple):
    """Queues with an execution due by the horizon; `now` is the database's clock."""

    now: datetime
    queues: frozenset[str]


def due_queues(database: Database, queues: Collection[str], since: datetime, horizon_ms: int) -> DueQueues:
    """Find the queues with executions due from `since` until `horizon_ms` from now; in shard 0, the only one."""
    found, in_order = set[str](), sorted(queues)
    for first in range(0, len(in_order), QUEUES):
        part = in_order[first : first + QUEUES]
        padded: Sequence[str] = [*part, *[""] * (QUEUES - len(part))]
        params = {f"queue_{number}": queue for number, queue in enumerate(padded)}
        (row,) = database.fetch(CHECK, params | {"since": since, "horizon_ms": horizon_ms})
        found |= {queue for number, queue in enumerate(part) if getattr(row, f"due_{number}") is not None}
    return DueQueues(row.db_now, frozenset(found))
