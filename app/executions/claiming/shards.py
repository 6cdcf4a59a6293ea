"""Shards: when each shard of a queue has something to claim, and how many shards hold executions."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf

from app.config import MOST_SHARDS
from app.db import Database
from app.formats import EPOCH
from app.sql import hot_statement, statement

log = logging.getLogger(__name__)

SURVEY_SECONDS = 60.0
PROBED = 16  # shards per statement

# One probe of the claim's index per shard, written out: CockroachDB makes a correlated subquery with LIMIT 1 a join
# with every claimable row of the queue. A plain read: what it finds is for the claim to take. The last row is the
# database's clock.
_PROBES = "".join(
    f"""
    (SELECT shard, run_at FROM executions
      WHERE queue = :queue AND shard = CAST(:first AS BIGINT) + {number} AND status IN ('QUEUED', 'RETRYING')
        AND run_at >= CAST(:since_{number} AS TIMESTAMPTZ)
      ORDER BY run_at, execution_id LIMIT 1)
    UNION ALL"""  # noqa: S608 - a constant of this module
    for number in range(PROBED)
)
NEXT_DUE = hot_statement("executions.next_due", f"{_PROBES} SELECT CAST(NULL AS BIGINT) AS shard, now() AS run_at")

# Only shards beyond the known ones are read: normally there is nothing, not even deleted rows.
CLAIMABLE_BEYOND = statement(
    "executions.claimable_beyond",
    """
    SELECT shard FROM executions
     WHERE queue = :queue AND shard >= :known AND shard < :most AND status IN ('QUEUED', 'RETRYING')
     ORDER BY shard DESC, run_at DESC, execution_id DESC LIMIT 1
    """,
)
STORED_BEYOND = statement(
    "executions.stored_beyond",
    """
    (SELECT shard FROM executions
      WHERE shard >= :known AND shard < :most AND status = 'PENDING' AND NOT on_hold
      ORDER BY shard DESC, run_at DESC, execution_id DESC LIMIT 1)
    UNION ALL
    (SELECT shard FROM executions
      WHERE shard >= :known AND shard < :most AND completed_at IS NOT NULL
      ORDER BY shard DESC, completed_at DESC, execution_id DESC LIMIT 1)
    """,
)

FindBeyond = Callable[[int], int | None]
"""Takes a number of shards and returns the highest shard beyond them that holds executions."""


class ShardCount:
    """The number of shards to serve: those of the setting, and those in which executions were left by another one.

    Executions stay in the shard in which they were created, so a process whose TE_QUEUE_SHARDS is lower than another's,
    or than it was, would leave some of them alone for ever.
    """

    def __init__(self, configured: int, find_beyond: FindBeyond) -> None:
        self.count = configured
        self._configured = configured
        self._find_beyond = find_beyond

    def survey(self) -> int:
        """Look for executions in more shards than are served, and serve these shards from now on."""
        found = self._find_beyond(self.count)
        if found is not None:
            self.count = max(self.count, found + 1)
            log.warning(
                "TE_QUEUE_SHARDS is %d here, but shard %d holds executions: this process serves %d shards now; "
                "every process should have the same number",
                self._configured,
                found,
                self.count,
            )
        return self.count


@dataclass(frozen=True, slots=True)
class NextDue:
    """When the first claimable execution of each shard is due, by the database's clock; a shard may have none."""

    now: datetime
    run_at: dict[int, datetime]

    def in_seconds(self, shard: int) -> float:
        """Return in how many seconds something is due, infinity for nothing."""
        return (self.run_at[shard] - self.now).total_seconds() if shard in self.run_at else inf

    def seen_up_to(self, shard: int) -> datetime:
        """Return the instant up to which there was nothing to claim."""
        return min(self.now, self.run_at.get(shard, self.now))


def next_due(database: Database, *, queue: str, since: Sequence[datetime]) -> NextDue:
    """Read when the first claimable execution of each shard is due, from `since` of that shard on."""
    now, found = EPOCH, dict[int, datetime]()
    for first in range(0, len(since), PROBED):
        padded = [*since[first : first + PROBED], *[since[-1]] * PROBED][:PROBED]
        params = {f"since_{number}": instant for number, instant in enumerate(padded)}
        for row in database.fetch(NEXT_DUE, params | {"queue": queue, "first": first}):
            if row.shard is None:
                now = row.run_at
            else:
                found[row.shard] = row.run_at
    return NextDue(now, found)


def claimable_beyond(database: Database, queue: str, known: int) -> int | None:
    """Return the highest shard beyond the known ones in which something waits to be claimed from a queue."""
    params = {"queue": queue, "known": known, "most": MOST_SHARDS}
    return max((row.shard for row in database.fetch(CLAIMABLE_BEYOND, params)), default=None)


def stored_beyond(database: Database, known: int) -> int | None:
    """Return the highest shard beyond the known ones with something to promote or to prune, whatever its queue."""
    params = {"known": known, "most": MOST_SHARDS}
    return max((row.shard for row in database.fetch(STORED_BEYOND, params)), default=None)
