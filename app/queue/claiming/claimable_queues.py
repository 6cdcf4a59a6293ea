"""Queues: which of them have something to claim, now or later, for which endpoints, and which are named anywhere."""

from collections.abc import Collection

from app.kernel.db import Database
from app.kernel.sql import of_regions, statement
from app.queue.claiming.arms import CLAIMABLE

# One entry of the index of lanes a hop, however many executions wait in a queue.
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
# Several entries, as most endpoints have little in a shard: 64 of those cost one statement, and a deep one costs one.
ENTRIES = 64
NEXT_ENDPOINTS = statement(
    "executions.next_endpoints",
    f"""
    SELECT DISTINCT endpoint, entries
      FROM (SELECT endpoint, count(*) OVER () AS entries
              FROM (SELECT endpoint FROM executions
                     WHERE queue = :queue AND shard = :shard AND {CLAIMABLE}{of_regions()} AND endpoint > :after
                     ORDER BY endpoint, limit_key, priority, run_at, execution_id LIMIT {ENTRIES}) AS found) AS counted
     ORDER BY endpoint
    """,  # noqa: S608 - constants of this module
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
        queue = next_queue(database, found[-1] if found else "")
        if queue is None:
            break
        found.append(queue)
    return found


def next_queue(database: Database, after: str) -> str | None:
    """Find the first queue behind that name with such executions; "" is before all."""
    rows = database.fetch(NEXT_QUEUE, {"after": after})
    return rows[0].queue if rows else None


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


def next_endpoints(database: Database, queue: str, shard: int, after: str) -> tuple[list[str], bool]:
    """Find the next endpoints behind that name with such executions in a shard of a queue, ENTRIES of them at most.

    Returns them in the order of their names, and whether there may be more.
    """
    rows = database.fetch(NEXT_ENDPOINTS, {"queue": queue, "shard": shard, "after": after})
    return [row.endpoint for row in rows], bool(rows) and rows[0].entries >= ENTRIES


def named_queues(database: Database) -> set[str]:
    """Return the queues that endpoints and routes name; jobs may name others."""
    return {row.queue for row in database.fetch(NAMED)}
