"""Queues: names of queues with claimable executions, and of queues in endpoints and routes."""

from collections.abc import Collection

from app.kernel.db import Database
from app.kernel.sql import hot_statement, of_regions, statement
from app.queue.claiming.arms import CLAIMABLE

# Reads one entry of the index of partitions per queue, however many executions wait there.
_ENTRY = f"""{CLAIMABLE}{of_regions()}
     ORDER BY queue, shard, endpoint, limit_key, priority, run_at, execution_id LIMIT 1"""
NEXT_QUEUE = hot_statement(
    "executions.next_queue",
    f"SELECT queue FROM executions WHERE queue > :after AND {_ENTRY}",  # noqa: S608 - a constant of this module
)
# Written out: CockroachDB might turn a list into a join with every claimable row.
AT_ONCE = 16
CLAIMABLE_OF = hot_statement(
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
    """Return up to `most` queues with executions that are claimable now or later, by name."""
    found: list[str] = []
    while len(found) < most:
        rows = database.fetch(NEXT_QUEUE, {"after": found[-1] if found else ""})
        if not rows:
            break
        found.append(rows[0].queue)
    return found


def claimable_of(database: Database, queues: Collection[str], most: int) -> list[str]:
    """Return up to `most` of these queues that have claimable executions, by name."""
    names, found = sorted(queues), list[str]()
    for start in range(0, len(names), AT_ONCE):
        if len(found) >= most:
            break
        asked = names[start : start + AT_ONCE]
        params = {f"queue_{number}": asked[number] if number < len(asked) else "" for number in range(AT_ONCE)}
        found += sorted(row.queue for row in database.fetch(CLAIMABLE_OF, params))
    return found[:most]


def named_queues(database: Database) -> set[str]:
    """Return the queues in endpoints and routes; jobs may have other queues."""
    return {row.queue for row in database.fetch(NAMED)}
