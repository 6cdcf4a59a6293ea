"""Faults of the database: restarts, a fail-over to a server that only reads, a row that somebody holds."""

import time
from contextlib import suppress
from datetime import datetime
from functools import partial

import psycopg2

from app.dev.servers import Postgres
from app.dev.verify.evidence import RowLock
from app.dev.verify.faults.fault_plan import Act, Fault
from app.dev.verify.faults.injector import Do, Undo

# A session that may write whatever the server's default is: it has to take that default back.
_WRITER = "-c default_transaction_read_only=off"
_MOST_TRIES, _TRY_AGAIN_SECONDS = 100, 0.02  # until a delivery is open
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
_OTHERS_MEANWHILE = {
    Act.LOCK_ROW: """
        SELECT count(*), clock_timestamp() FROM executions WHERE completed_at > %s AND execution_id <> %s
    """,
    Act.LOCK_JOB: """
        SELECT count(*), clock_timestamp() FROM executions AS e JOIN jobs AS j ON j.job_id = e.job_id
         WHERE e.created_at > %s AND j.trigger_type = 'INTERVAL' AND e.job_id <> %s
    """,
}


class DatabaseFaults:
    """Faults of the PostgreSQL that the run has started."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self.locks: list[RowLock] = []

    @property
    def acts(self) -> dict[Act, Do]:
        """Return how each act is done."""
        return {
            Act.RESTART_IMMEDIATE: self._restart,
            Act.CRASH: self._crash,
            Act.READ_ONLY: self._read_only,
            Act.LOCK_ROW: self._lock_row,
            Act.LOCK_JOB: self._lock_row,
        }

    def restart(self) -> None:
        """Drop every connection and start again."""
        self._postgres.restart(mode="immediate")

    def _restart(self, _fault: Fault) -> None:
        self.restart()

    def _crash(self, _fault: Fault) -> None:
        self._postgres.kill()
        self._postgres.start()

    def _read_only(self, _fault: Fault) -> Undo:
        """Answer every write with SQLSTATE 25006, as an old primary does after a fail-over."""
        self._tell_server("ALTER SYSTEM SET default_transaction_read_only = on")
        return Undo(partial(self._tell_server, "ALTER SYSTEM RESET default_transaction_read_only"))

    def _tell_server(self, command: str) -> None:
        connection = psycopg2.connect(self._postgres.url, options=_WRITER)
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(command)
                cursor.execute("SELECT pg_reload_conf()")
        finally:
            connection.close()

    def _lock_row(self, fault: Fault) -> Undo | None:
        """Hold the row of an open delivery or of a repeating job, as a forgotten transaction of an operator would."""
        # The server may refuse writes at the moment.
        connection = psycopg2.connect(self._postgres.url, options=_WRITER)
        for _ in range(_MOST_TRIES):
            with connection.cursor() as cursor:
                cursor.execute(_LOCKS[fault.act])
                found = cursor.fetchone()
            if found is not None:
                return Undo(partial(self._let_go, connection, fault.act, *found))
            connection.rollback()
            time.sleep(_TRY_AGAIN_SECONDS)
        connection.close()
        return None

    def _let_go(self, connection: "psycopg2.extensions.connection", act: Act, row_id: str, since: datetime) -> None:
        # A restart of the database may have ended the transaction, and the lock with it.
        with suppress(psycopg2.Error):
            # Count before the release: statements that wait for the lock have not committed yet.
            with connection.cursor() as cursor:
                cursor.execute(_OTHERS_MEANWHILE[act], (since, row_id))
                count, until = cursor.fetchone() or (0, since)
            connection.rollback()
            self.locks.append(RowLock(row_id, since, until, count))
        connection.close()
