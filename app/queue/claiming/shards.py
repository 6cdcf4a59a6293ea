"""Shards: number of shards that a process serves."""

import logging

from app.kernel.config import MAX_SHARDS
from app.kernel.db import Database
from app.kernel.sql import statement

log = logging.getLogger(__name__)

SURVEY_SECONDS = 60.0
# Reads only shards beyond the known shards, which normally have no rows at all.
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


class ShardCount:
    """Number of shards to serve: the setting, or more if higher shards hold executions.

    Executions stay in the shard of their creation, also when TE_QUEUE_SHARDS was higher, or is higher in another
    process. With a `queue` only its claimable executions count, else executions to promote or to prune.
    """

    def __init__(self, configured: int, database: Database, queue: str | None = None) -> None:
        self.count = configured
        self._configured = configured
        self._database = database
        self._queue = queue

    def survey(self) -> int:
        """Find executions in higher shards, and serve these shards from now on; return the number of shards."""
        statement = STORED_BEYOND if self._queue is None else CLAIMABLE_BEYOND
        params = {"known": self.count, "most": MAX_SHARDS, "queue": self._queue}
        found = max((row.shard for row in self._database.fetch(statement, params)), default=None)
        if found is not None:
            self.count = max(self.count, found + 1)
            log.warning(
                "TE_QUEUE_SHARDS is %d here, but shard %d holds executions; serving %d shards; "
                "set the same number for every process",
                self._configured,
                found,
                self.count,
            )
        return self.count
