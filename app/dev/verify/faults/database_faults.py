"""Faults of the database: restarts, a fail-over to a read-only server, locked rows."""

import time
from collections.abc import Generator
from contextlib import closing, suppress
from datetime import datetime

import psycopg2

from app.dev.servers import Postgres
from app.dev.verify.evidence import RowLock
from app.dev.verify.faults.fault_plan import Act, Fault

# A session that may write while the server's default is read-only: it has to change that default back.
_WRITER = "-c default_transaction_read_only=off"
_MAX_TRIES, _RETRY_SECONDS = 100, 0.02  # until a delivery is open
_LOCKS = {
    Act.LOCK_ROW: """
        SELECT execution_id, now() FROM executions WHERE status = 'RUNNING'
         ORDER BY execution_id LIMIT 1 FOR UPDATE SKIP LOCKED
    """,
    # Only a job that no request of the run changes before the load ends.
    Act.LOCK_JOB: """
        SELECT job_id, now() FROM jobs WHERE cron_next_run_at IS NOT NULL AND right(idempotency_key, 9) = '-interval'
         ORDER BY cron_next_run_at, job_id LIMIT 1 FOR UPDATE SKIP LOCKED
    """,
}
_OTHER_CHANGES = {
    Act.LOCK_ROW: """
        SELECT count(*), clock_timestamp() FROM executions WHERE completed_at > %s AND execution_id <> %s
    """,
    Act.LOCK_JOB: """
        SELECT count(*), clock_timestamp() FROM executions AS e JOIN jobs AS j ON j.job_id = e.job_id
         WHERE e.created_at > %s AND j.trigger_type = 'INTERVAL' AND e.job_id <> %s
    """,
}


class DatabaseFaults:
    """Faults of the run's own PostgreSQL."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self.locks: list[RowLock] = []

    def restart(self, _fault: Fault) -> None:
        """Drop every connection and start again."""
        self._postgres.restart()

    def crash(self, _fault: Fault) -> None:
        self._postgres.kill()
        self._postgres.start()

    def read_only(self, fault: Fault) -> Generator[None]:
        """Answer every write with SQLSTATE 25006, like an old primary after a fail-over."""
        self._execute("ALTER SYSTEM SET default_transaction_read_only = on")
        try:
            yield from fault.lasting()
        finally:
            self._execute("ALTER SYSTEM RESET default_transaction_read_only")

    def lock(self, fault: Fault) -> Generator[None]:
        """Lock the row of an open delivery or of a repeating job, like a forgotten transaction of an operator."""
        with closing(psycopg2.connect(self._postgres.url, options=_WRITER)) as connection:
            found = self._locked(connection, fault.act)
            if found is None:
                return
            try:
                yield from fault.lasting()
            finally:
                self._record(connection, fault.act, *found)

    def _execute(self, command: str) -> None:
        with closing(psycopg2.connect(self._postgres.url, options=_WRITER)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(command)
                cursor.execute("SELECT pg_reload_conf()")

    @staticmethod
    def _locked(connection: "psycopg2.extensions.connection", act: Act) -> tuple[str, datetime] | None:
        """Lock a row and return its id and the time; None if there was none in time."""
        for _ in range(_MAX_TRIES):
            with connection.cursor() as cursor:
                cursor.execute(_LOCKS[act])
                found: tuple[str, datetime] | None = cursor.fetchone()
            if found is not None:
                return found
            connection.rollback()
            time.sleep(_RETRY_SECONDS)
        return None

    def _record(self, connection: "psycopg2.extensions.connection", act: Act, row_id: str, since: datetime) -> None:
        """Count the other changes and release the row."""
        # A restart of the database may have ended the transaction, and the lock with it.
        with suppress(psycopg2.Error):
            # Count before the release: statements that wait for the lock have not committed yet.
            with connection.cursor() as cursor:
                cursor.execute(_OTHER_CHANGES[act], (since, row_id))
                count, until = cursor.fetchone() or (0, since)
            connection.rollback()
            self.locks.append(RowLock(row_id, since, until, count))
