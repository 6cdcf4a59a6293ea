"""Late commits: rows that become visible long after their due time, behind the watermarks of their readers."""

from datetime import datetime, timedelta

from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.kernel.sql import statement
from app.queue.executions.watermark import SLACK

# Runs on PostgreSQL only.
SNAPSHOT = statement(
    "executions.open_transactions", "SELECT now() AS now, CAST(pg_current_snapshot() AS TEXT) AS snapshot"
)
SHORT = timedelta(seconds=1)  # nearly all transactions last less, and the slack of the watermarks covers them


class LateCommits:
    """Detects the ends of long transactions, so that readers read again from their beginnings.

    The due time of a row may be as old as the transaction that inserts it. The row appears behind all watermarks if the
    transaction lasts for longer than their slack, as a client's transaction with `te_enqueue` can. CockroachDB has
    neither `te_enqueue` nor a list of open transactions: there the next full scan finds such a row.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        # Open transactions that write: a time before they wrote, and when they were first seen.
        self._open: dict[str, tuple[datetime, datetime]] = {}
        self._read_at = EPOCH + SLACK

    def ended_since(self) -> datetime | None:
        """Return the time from which to read again; None if no long transaction has ended since the last call.

        Raises UnavailableError.
        """
        if self._database.is_cockroach:
            return None
        (row,) = self._database.fetch(SNAPSHOT)
        seen, running = self._open, row.snapshot.rpartition(":")[2]
        self._open = {number: seen.get(number, (self._read_at, row.now)) for number in running.split(",") if number}
        self._read_at, latest = row.now, row.now - SHORT
        ended = [begun for number, (begun, at) in seen.items() if number not in self._open and at <= latest]
        # A statement may wait for a lock before its transaction gets a number.
        return min(ended) - SLACK if ended else None
