"""Faults of the database: restarts, a fail-over to a server that only reads, a row that somebody holds."""

import time
from contextlib import suppress
from datetime import datetime
from functools import partial

import psycopg2

from app.dev.servers import Postgres
from app.dev.verify.evidence import RowLock
from app.dev.verify.faults.injector import Do, Undo
from app.dev.verify.faults.plan import Act, Fault

# A session that may write whatever the server's default is: it has to take that default back.
_WRITER = "-c default_transaction_read_only=off"
_MOST_TRIES, _TRY_AGAIN_SECONDS = 100, 0.02  # until a delivery is open
_LOCK = """
    SELECT execution_id, now() FROM executions WHERE status = 'RUNNING'
     ORDER BY execution_id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
_COMPLETED_MEANWHILE = """
    SELECT count(*), now() FROM executions WHERE completed_at > %s AND completed_at <= now() AND execution_id <> %s
"""


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
        return Undo(lambda: self._tell_server("ALTER SYSTEM RESET default_transaction_read_only"))

    def _tell_server(self, command: str) -> None:
        connection = psycopg2.connect(self._postgres.url, options=_WRITER)
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(command)
                cursor.execute("SELECT pg_reload_conf()")
        finally:
            connection.close()

    def _lock_row(self, _fault: Fault) -> Undo | None:
        """Hold the row of an open delivery, as a forgotten transaction of an operator would."""
        # The server may refuse writes at the moment.
        connection = psycopg2.connect(self._postgres.url, options=_WRITER)
        for _ in range(_MOST_TRIES):
            with connection.cursor() as cursor:
                cursor.execute(_LOCK)
                found = cursor.fetchone()
            if found is not None:
                return Undo(partial(self._let_go, connection, *found))
            connection.rollback()
            time.sleep(_TRY_AGAIN_SECONDS)
        connection.close()
        return None

    def _let_go(self, connection: "psycopg2.extensions.connection", execution_id: str, since: datetime) -> None:
        # A restart of the database may have ended the transaction, and the lock with it.
        with suppress(psycopg2.Error):
            connection.rollback()
            with connection.cursor() as cursor:
                cursor.execute(_COMPLETED_MEANWHILE, (since, execution_id))
                count, until = cursor.fetchone() or (0, since)
            self.locks.append(RowLock(execution_id, since, until, count))
        connection.close()
