"""Queues: the names of those that have claimable executions, and of those that endpoints and routes name."""

from collections.abc import Collection

from app.kernel.db import Database
from app.kernel.sql import of_regions, statement
from app.queue.claiming.arms import CLAIMABLE

# One entry of the index of partitions a hop, however many executions wait in a queue.
_ENTRY = f"""{CLAIMABLE}{of_regions()}
     ORDER BY queue, shard, endpoint, limit_key, priority, run_at, execution_id LIMIT 1"""
NEXT_QUEUE = statement(
    "executions.next_queue",
    f"SELECT queue FROM executions WHERE queue > :after AND {_ENTRY}",  # noqa: S608 - a constant of this module
)
# Arms and no join with a list: CockroachDB might make it a join with every claimable row.
AT_ONCE = 16
CLAIMABLE_OF = statement(
    "executions.claimable_of_queues",
    " UNION ALL ".join(
        f"(SELECT queue FROM executions WHERE queue = :queue_{number} AND {_ENTRY})"  # noqa: S608 - as above
        for number in range(AT_ONCE)
    ),
)
NAMED = statement(
    "executions.named_queues",
    """
    SELECT queue FROM routes UNION SELECT queue FROM endpoints WHERE queue IS NOT NULL AND deleted_at IS NULL
    """,
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


def claimable_of(database: Database, queues: Collection[str], most: int) -> list[str]:
    """Find up to `most` of these queues that have such executions, in the order of their names."""
    names, found = sorted(queues), list[str]()
    for start in range(0, len(names), AT_ONCE):
        if len(found) >= most:
            break
        asked = names[start : start + AT_ONCE]
        params = {f"queue_{number}": asked[number] if number < len(asked) else "" for number in range(AT_ONCE)}
        found += sorted(row.queue for row in database.fetch(CLAIMABLE_OF, params))
    return found[:most]


def named_queues(database: Database) -> set[str]:
    """Return the queues that endpoints and routes name; jobs may name others."""
    return {row.queue for row in database.fetch(NAMED)}
