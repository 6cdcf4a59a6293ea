"""Queues: which of them have something to claim, now or later."""

from app.db import Database
from app.executions.claiming.arms import CLAIMABLE
from app.sql import statement

# One entry of the index of lanes a hop, however many executions wait in a queue.
NEXT_QUEUE = statement(
    "executions.next_queue",
    f"""
    SELECT queue FROM executions WHERE queue > :after AND {CLAIMABLE}
     ORDER BY queue, shard, endpoint, limit_key, priority, run_at, execution_id LIMIT 1
    """,  # noqa: S608 - a constant of this package
)


def claimable_queues(database: Database, most: int) -> list[str]:
    """Find up to `most` queues with executions that are claimable now or later, in the order of their names."""
    found: list[str] = []
    while len(found) < most:
        rows = database.fetch(NEXT_QUEUE, {"after": found[-1] if found else ""})
        if not rows:
            break
        found.append(rows[0].queue)
    return found
