"""Inbox in a table of the application's database, with the same SQL on PostgreSQL, CockroachDB and SQLite.

Concurrent attempts of an execution are refused at once on PostgreSQL. On SQLite the second attempt waits, because only
one transaction writes at a time. On CockroachDB it may wait, because reads can wait for uncommitted writes.
"""

import time
from abc import abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from task_executor_receiver.inbox import Note, Overtaken, TransactionalInbox, Tx, Visit, checked_kept

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
"""Statements that create the table. Both times are Unix times in seconds by the receiver's clock."""

DROP = "DROP TABLE IF EXISTS task_executor_inbox"

KEPT = timedelta(days=60)
PRUNE_BATCH = 1000

_ENTER = """
    INSERT INTO task_executor_inbox (execution_id, attempt, touched_at)
    VALUES (:execution_id, :attempt, :now)
    ON CONFLICT (execution_id) DO NOTHING
"""
_READ = "SELECT attempt, done_at, result FROM task_executor_inbox WHERE execution_id = :execution_id"
_LOCK = _READ + " FOR UPDATE SKIP LOCKED"
# SQLite has no row locks: the first write of a transaction locks the database.
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
          SELECT execution_id FROM task_executor_inbox WHERE touched_at < :before ORDER BY touched_at LIMIT :batch
      )
"""


def is_sqlite(database: str) -> bool:
    """Return whether a database is SQLite.

    Args:
        database: Name of the database: `postgresql`, `cockroachdb` or `sqlite`.

    Raises:
        NotImplementedError: The database is not supported.
    """
    if database not in {"postgresql", "cockroachdb", "sqlite"}:
        raise NotImplementedError(f"{database} is not supported: use PostgreSQL, CockroachDB or SQLite")
    return database == "sqlite"


class SqlInbox(TransactionalInbox[Tx]):
    """Inbox in the table `task_executor_inbox` of the database of the handler's effects.

    A running attempt holds a row lock, which the database releases with the connection when a receiver dies. Use a
    subclass: SqlAlchemyInbox or DjangoInbox.

    Example:
        inbox = SqlAlchemyInbox(engine)
        inbox.create_table()
    """

    @abstractmethod
    def _run(self, tx: Tx, statement: str, values: dict[str, Any]) -> int:
        """Execute a statement with named values; returns the number of written rows."""

    @abstractmethod
    def _rows(self, tx: Tx, statement: str, values: dict[str, Any]) -> Sequence[Sequence[Any]]:
        """Execute a query with named values."""

    @abstractmethod
    def _is_sqlite(self, tx: Tx) -> bool:
        """Return `is_sqlite` for the name of the database."""

    def create_table(self) -> None:
        """Create the table if it is missing, for tests, examples and applications without migrations.

        Several processes may create it concurrently. A migration executes the statements of `DDL` instead.

        Raises:
            Exception: Error of the driver or the framework, after the second try.
        """
        try:
            self._make_table()
        except Exception:  # noqa: BLE001 - each driver and framework raises its own
            # PostgreSQL fails all but one of several concurrent CREATE TABLE; the second try finds the table.
            self._make_table()

    def prune(self, kept: timedelta = KEPT, batch: int = PRUNE_BATCH) -> int:
        """Delete executions without a new attempt for `kept`, in batches.

        A deleted execution that is delivered again has its effect again. Choose `kept` longer than the service keeps
        executions: `TE_RETENTION_DAYS` (default 30) after the last attempt, and until an open dead letter is resolved.

        Args:
            kept: Age of the last attempt from which an execution is deleted, at least a second.
            batch: Rows per transaction, at least 1.

        Returns:
            The number of deleted executions.

        Raises:
            ValueError: `kept` or `batch` is too small.

        Example:
            inbox.prune(timedelta(days=90))  # once a day
        """
        if batch < 1:
            raise ValueError(f"batch: must be at least 1, not {batch}")
        before, count = int(time.time() - checked_kept(kept).total_seconds()), 0
        while True:
            with self._transaction() as tx:
                pruned = self._run(tx, _PRUNE, {"before": before, "batch": batch})
            count += pruned
            if pruned < batch:
                return count

    def _make_table(self) -> None:
        with self._transaction() as tx:
            for statement in DDL:
                self._run(tx, statement, {})

    def _lock(self, tx: Tx, visit: Visit, *, enters: bool) -> Note | None:
        if (note := self._locked(tx, visit)) is not None:
            return note
        # PostgreSQL's INSERT waits for a concurrent writer of the row, even with DO NOTHING: so read first.
        if rows := self._rows(tx, _READ, {"execution_id": visit.execution_id}):
            note = _note(rows[0])
            return note if note.is_done else None
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
        # The statement's condition also holds without the lock.
        if not self._run(tx, _MARK, self._values(visit)):
            raise Overtaken

    def _keep(self, tx: Tx, visit: Visit, result: str | None) -> None:
        # Needed without a result, too: after a failed statement PostgreSQL turns COMMIT into a silent rollback.
        values = {"execution_id": visit.execution_id, "attempt": visit.attempt, "result": result}
        if not self._run(tx, _KEEP, values):
            raise RuntimeError(
                "the handler rolled back the inbox's transaction; handlers must neither commit nor roll back"
            )

    @staticmethod
    def _values(visit: Visit) -> dict[str, Any]:
        return {"execution_id": visit.execution_id, "attempt": visit.attempt, "now": int(time.time())}


def _note(row: Sequence[Any]) -> Note:
    attempt, done_at, result = row
    return Note(attempt, done_at is not None, result)
