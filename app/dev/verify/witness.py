"""Witness: a trigger in the database that records each change of an execution, in the transaction of the change.

It is no part of the product, uses a schema of its own in PostgreSQL's dialect, and is removed at the end of the run.
"""

from contextlib import suppress
from functools import partial

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from app.dev.verify.evidence import TransitionRow
from app.kernel.db import Database
from schema.states import ExecutionStatus

_INSTALL = [
    "CREATE SCHEMA {schema}",
    """
    CREATE TABLE {schema}.changes (
      number BIGSERIAL PRIMARY KEY, execution_id TEXT NOT NULL, job_id TEXT NOT NULL, before TEXT, after TEXT NOT NULL,
      attempt_before BIGINT NOT NULL, attempt_after BIGINT NOT NULL, worker_before TEXT, worker_after TEXT,
      lease_valid BOOLEAN, at TIMESTAMPTZ NOT NULL DEFAULT now())
    """,
    """
    CREATE FUNCTION {schema}.note() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF TG_OP = 'INSERT' THEN
        INSERT INTO {schema}.changes (execution_id, job_id, after, attempt_before, attempt_after, worker_after)
        VALUES (NEW.execution_id, NEW.job_id, NEW.status, 0, NEW.attempt_count, NEW.worker_id);
      ELSIF (OLD.status, OLD.attempt_count) IS DISTINCT FROM (NEW.status, NEW.attempt_count)
         OR OLD.worker_id IS DISTINCT FROM NEW.worker_id OR OLD.status = 'RUNNING' THEN
        INSERT INTO {schema}.changes (execution_id, job_id, before, after, attempt_before, attempt_after,
                                      worker_before, worker_after, lease_valid)
        VALUES (NEW.execution_id, NEW.job_id, OLD.status, NEW.status, OLD.attempt_count, NEW.attempt_count,
                OLD.worker_id, NEW.worker_id,
                CASE WHEN NEW.status = 'RUNNING' THEN EXISTS (
                  SELECT 1 FROM workers AS w
                   WHERE w.worker_id = NEW.worker_id AND w.status = 'ALIVE' AND w.lease_expires_at > now()) END);
      END IF;
      RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER {schema} AFTER INSERT OR UPDATE ON executions FOR EACH ROW EXECUTE FUNCTION {schema}.note()",
]
_REMOVE = ["DROP TRIGGER IF EXISTS {schema} ON executions", "DROP SCHEMA IF EXISTS {schema} CASCADE"]
_READ = """
    SELECT c.execution_id, before, after, attempt_before, attempt_after, worker_before, worker_after, lease_valid,
           c.at
      FROM {schema}.changes AS c JOIN jobs AS j ON j.job_id = c.job_id
     WHERE j.endpoint = ANY (CAST(:endpoints AS TEXT[])) ORDER BY c.number
"""


class Witness:
    """Records the changes of one run; CockroachDB has no such triggers, so `is_there` stays false."""

    def __init__(self, database: Database, run: str) -> None:
        self._database = database
        self._schema = f"verify_{run}"
        self.is_there = False

    def install(self) -> None:
        if self._database.is_cockroach:
            return
        self._database.transact(partial(self._run, statements=_INSTALL))
        self.is_there = True

    def remove(self) -> None:
        if self.is_there:
            with suppress(DBAPIError):
                self._database.transact(partial(self._run, statements=_REMOVE))
            self.is_there = False

    def changes(self, endpoints: list[str]) -> tuple[TransitionRow, ...] | None:
        """Read the recorded changes of executions of these endpoints, in order."""
        if not self.is_there:
            return None
        rows = self._database.fetch(text(_READ.format(schema=self._schema)), {"endpoints": endpoints})
        return tuple(
            TransitionRow(execution_id, ExecutionStatus(before) if before else None, ExecutionStatus(after), *rest)
            for execution_id, before, after, *rest in rows
        )

    def _run(self, connection: Connection, statements: list[str]) -> None:
        for statement in statements:
            connection.exec_driver_sql(statement.format(schema=self._schema))
