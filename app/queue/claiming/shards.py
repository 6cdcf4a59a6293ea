"""Shards: how many of them hold executions."""

import logging
from collections.abc import Callable

from app.kernel.config import MOST_SHARDS
from app.kernel.db import Database
from app.kernel.sql import statement

log = logging.getLogger(__name__)

SURVEY_SECONDS = 60.0
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


def claimable_beyond(database: Database, queue: str, known: int) -> int | None:
    """Return the highest shard beyond the known ones in which something waits to be claimed from a queue."""
    params = {"queue": queue, "known": known, "most": MOST_SHARDS}
    return max((row.shard for row in database.fetch(CLAIMABLE_BEYOND, params)), default=None)


def stored_beyond(database: Database, known: int) -> int | None:
    """Return the highest shard beyond the known ones with something to promote or to prune, whatever its queue."""
    params = {"known": known, "most": MOST_SHARDS}
    return max((row.shard for row in database.fetch(STORED_BEYOND, params)), default=None)
