"""Faults of the database: restarts, a fail-over to a read-only server, locked rows."""

import time
from collections.abc import Generator, Sequence
from contextlib import closing, suppress
from datetime import datetime

import psycopg2

from app.dev.servers import Postgres
from app.dev.verify.evidence import RowLock
from app.dev.verify.faults.fault_plan import LOCKS, Act, Fault

# A session that may write while the server's default is read-only: it has to change that default back.
_WRITER = "-c default_transaction_read_only=off"
_SEARCH_SECONDS, _RETRY_SECONDS = 3.0, 0.001  # a completion event exists for milliseconds
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
    # Of a worker with several executions: the others must be reclaimed.
    Act.LOCK_LOST: """
        SELECT e.execution_id, now() FROM executions AS e
         WHERE e.status = 'RUNNING' AND e.worker_id IN (
               SELECT w.worker_id FROM workers AS w JOIN executions AS o ON o.worker_id = w.worker_id
                WHERE w.pid = ANY(%(pids)s) AND o.status = 'RUNNING' GROUP BY w.worker_id HAVING count(*) > 2)
         ORDER BY random() LIMIT 1 FOR UPDATE OF e SKIP LOCKED
    """,
    Act.LOCK_LIMITER: "SELECT gate_id, now() FROM gates ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED",
    Act.LOCK_EVENT: "SELECT end_id, now() FROM execution_ends ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED",
    Act.LOCK_WORKER: """
        SELECT worker_id, now() FROM workers WHERE pid = ANY(%(pids)s) AND lease_expires_at > now()
         ORDER BY random() LIMIT 1 FOR UPDATE SKIP LOCKED
    """,
}
_ENDED = """
    SELECT count(*), clock_timestamp() FROM executions WHERE completed_at > %(since)s AND execution_id <> %(row)s
"""
_OTHER_CHANGES = {
    **dict.fromkeys(LOCKS, _ENDED),
    Act.LOCK_JOB: """
        SELECT count(*), clock_timestamp() FROM executions AS e JOIN jobs AS j ON j.job_id = e.job_id
         WHERE e.created_at > %(since)s AND j.trigger_type = 'INTERVAL' AND e.job_id <> %(row)s
    """,
    # None while another execution of the dead worker is not reclaimed.
    Act.LOCK_LOST: f"""
        {_ENDED} AND NOT EXISTS (
          SELECT 1 FROM executions AS o JOIN executions AS e ON e.worker_id = o.worker_id
           WHERE e.execution_id = %(row)s AND o.status = 'RUNNING' AND o.execution_id <> %(row)s)
    """,
    # Callbacks of the other completion events.
    Act.LOCK_EVENT: """
        SELECT count(*), clock_timestamp() FROM jobs
         WHERE callback_of IS NOT NULL AND created_at > %(since)s AND job_id <> %(row)s
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

    def lock(self, fault: Fault, pids: Sequence[int]) -> Generator[None]:
        """Lock a row, perhaps one of the worker with these processes, like a forgotten transaction of an operator."""
        with closing(psycopg2.connect(self._postgres.url, options=_WRITER)) as connection:
            found = self._locked(connection, fault.act, pids)
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
    def _locked(
        connection: "psycopg2.extensions.connection", act: Act, pids: Sequence[int]
    ) -> tuple[str, datetime] | None:
        """Lock a row and return its id and the time; None if there was none in time."""
        until = time.monotonic() + _SEARCH_SECONDS
        while time.monotonic() < until:
            with connection.cursor() as cursor:
                cursor.execute(_LOCKS[act], {"pids": list(pids)})
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
                cursor.execute(_OTHER_CHANGES[act], {"since": since, "row": row_id})
                count, until = cursor.fetchone() or (0, since)
            connection.rollback()
            self.locks.append(RowLock(f"{act}: {row_id}", since, until, count))
