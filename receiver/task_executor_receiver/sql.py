"""Inbox in a table beside your own: one text for PostgreSQL, CockroachDB and SQLite.

On SQLite one transaction writes at a time: an attempt that comes while another is at work waits for it, and on
CockroachDB it may have to, because a read can wait for what is not committed.
"""

import time
from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from task_executor_receiver.inbox import Note, Overtaken, TransactionalInbox, Tx, Visit

DDL = (
    """CREATE TABLE IF NOT EXISTS task_executor_inbox (
    execution_id VARCHAR(64) NOT NULL PRIMARY KEY,
    attempt      INTEGER NOT NULL,
    touched_at   BIGINT NOT NULL,
    done_at      BIGINT,
    result       TEXT
)""",
    "CREATE INDEX IF NOT EXISTS idx_task_executor_inbox_touched_at ON task_executor_inbox (touched_at)",
)
"""What makes the table. Both times are Unix times in seconds by the receiver's clock, for pruning and for you."""

DROP = "DROP TABLE IF EXISTS task_executor_inbox"

KEPT = timedelta(days=60)
PRUNED_AT_ONCE = 1000

_ENTER = """
    INSERT INTO task_executor_inbox (execution_id, attempt, touched_at)
    VALUES (:execution_id, :attempt, :now)
    ON CONFLICT (execution_id) DO NOTHING
"""
_READ = "SELECT attempt, done_at, result FROM task_executor_inbox WHERE execution_id = :execution_id"
_LOCK = _READ + " FOR UPDATE SKIP LOCKED"
# SQLite knows no locks of rows: the first write of a transaction locks the database.
_LOCK_SQLITE = "UPDATE task_executor_inbox SET attempt = attempt WHERE execution_id = :execution_id"
_ADMIT = """
    UPDATE task_executor_inbox SET attempt = :attempt, touched_at = :now
    WHERE execution_id = :execution_id AND attempt <= :attempt AND done_at IS NULL
"""
_MARK = """
    UPDATE task_executor_inbox SET done_at = :now, touched_at = :now
    WHERE execution_id = :execution_id AND attempt = :attempt AND done_at IS NULL
"""
_KEEP = """
    UPDATE task_executor_inbox SET result = :result
    WHERE execution_id = :execution_id AND attempt = :attempt AND done_at IS NOT NULL
"""
_PRUNE = """
    DELETE FROM task_executor_inbox
    WHERE touched_at < :before
      AND execution_id IN (
          SELECT execution_id FROM task_executor_inbox WHERE touched_at < :before ORDER BY touched_at LIMIT :at_once
      )
"""


def is_sqlite(database: str) -> bool:
    """Return whether a database is SQLite; raises NotImplementedError for one that is none of the three."""
    if database not in {"postgresql", "cockroachdb", "sqlite"}:
        raise NotImplementedError(f"an inbox in {database}: PostgreSQL, CockroachDB and SQLite are supported")
    return database == "sqlite"


class SqlInbox(TransactionalInbox[Tx]):
    """Inbox in the table `task_executor_inbox` of the database that the handler's effects go to.

    Whoever is at work holds the row's lock, so a receiver that dies gives it up with its connection, and nothing has to
    run out.
    """

    @abstractmethod
    def _run(self, tx: Tx, statement: str, values: dict[str, Any]) -> int:
        """Execute a statement with named values; returns how many rows it has written."""

    @abstractmethod
    def _rows(self, tx: Tx, statement: str, values: dict[str, Any]) -> Sequence[Sequence[Any]]:
        """Execute a query with named values."""

    @abstractmethod
    def _is_sqlite(self, tx: Tx) -> bool:
        """Return `is_sqlite` of what the database is called."""

    def create_table(self) -> None:
        """Make the table if there is none: for tests, examples, and whoever has no migrations."""
        try:
            self._make_table()
        except Exception:  # noqa: BLE001 - each driver and framework has its own
            # PostgreSQL lets all but one fail that do so at once; to those it is there then.
            self._make_table()

    def prune(self, kept: timedelta = KEPT) -> int:
        """Forget executions of which no attempt has begun for so long, and return how many.

        An execution that is forgotten would have its effect again: keep them for longer than the service does. It keeps
        one for `TE_RETENTION_DAYS` (30 days unless it says otherwise) after its last attempt, within which it may be
        retried by hand, and one with an open dead letter until somebody has seen to that.
        """
        before, count = int(time.time() - kept.total_seconds()), 0
        while True:
            with self._transaction() as tx:
                pruned = self._run(tx, _PRUNE, {"before": before, "at_once": PRUNED_AT_ONCE})
            count += pruned
            if pruned < PRUNED_AT_ONCE:
                return count

    def _make_table(self) -> None:
        with self._transaction() as tx:
            for statement in DDL:
                self._run(tx, statement, {})

    def _lock(self, tx: Tx, visit: Visit, *, enters: bool) -> Note | None:
        if (note := self._locked(tx, visit)) is not None:
            return note
        # PostgreSQL lets an INSERT wait for whoever has changed the row, even with DO NOTHING: so we look first.
        if rows := self._rows(tx, _READ, {"execution_id": visit.execution_id}):
            # What is done stays so, whoever looks at it now.
            return _note(rows[0]) if _note(rows[0]).is_done else None
        if enters and self._run(tx, _ENTER, self._values(visit)):
            return Note(visit.attempt)
        return self._locked(tx, visit)

    def _locked(self, tx: Tx, visit: Visit) -> Note | None:
        is_sqlite, values = self._is_sqlite(tx), {"execution_id": visit.execution_id}
        if is_sqlite:
            self._run(tx, _LOCK_SQLITE, values)
        rows = self._rows(tx, _READ if is_sqlite else _LOCK, values)
        return _note(rows[0]) if rows else None

    def _admit(self, tx: Tx, visit: Visit) -> None:
        self._run(tx, _ADMIT, self._values(visit))

    def _mark(self, tx: Tx, visit: Visit) -> None:
        # The condition holds without the lock, too.
        if not self._run(tx, _MARK, self._values(visit)):
            raise Overtaken

    def _keep(self, tx: Tx, visit: Visit, result: str | None) -> None:
        # Also without a result: a transaction in which a statement has failed takes its COMMIT without a word.
        values = {"execution_id": visit.execution_id, "attempt": visit.attempt, "result": result}
        if not self._run(tx, _KEEP, values):
            raise RuntimeError("the handler has rolled back the transaction that it was given")

    @staticmethod
    def _values(visit: Visit) -> dict[str, Any]:
        return {"execution_id": visit.execution_id, "attempt": visit.attempt, "now": int(time.time())}


def _note(row: Sequence[Any]) -> Note:
    attempt, done_at, result = row
    return Note(attempt, done_at is not None, result)
