"""A database that fails chosen writes of a worker with a chosen SQLSTATE."""

from sqlalchemy import text

from app.kernel.db import Database

EVERY_ROW = "*"

_INSTALL = """
CREATE TABLE faults (place TEXT PRIMARY KEY, state TEXT NOT NULL, message TEXT NOT NULL);
CREATE SEQUENCE faults_met;
CREATE FUNCTION meet_fault() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE met faults;
BEGIN
  SELECT * INTO met FROM faults WHERE place IN ('*', to_jsonb(NEW) ->> TG_ARGV[0]) LIMIT 1;
  IF FOUND THEN
    PERFORM nextval('faults_met');
    RAISE EXCEPTION '%', met.message USING ERRCODE = met.state;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER meet_fault BEFORE UPDATE ON executions FOR EACH ROW WHEN (OLD.status = 'RUNNING')
  EXECUTE FUNCTION meet_fault('execution_id');
CREATE TRIGGER meet_fault BEFORE UPDATE ON workers FOR EACH ROW EXECUTE FUNCTION meet_fault('worker_id');
"""


class Faults:
    """Faults of one database: each fails the writes of one execution or worker, or of every row."""

    def __init__(self, database: Database) -> None:
        self._database = database
        with database.engine.begin() as connection:
            connection.exec_driver_sql(_INSTALL.replace("%'", "%%'"))

    def set(self, state: str, place: str = EVERY_ROW, message: str = "injected") -> None:
        """Fail each write that ends the claim of an execution or renews the lease of a worker.

        `place` is the id of the execution or worker, or `EVERY_ROW`.
        """
        insert = text("INSERT INTO faults VALUES (:place, :state, :message)")
        self._database.fetch(insert, {"place": place, "state": state, "message": message})

    def clear(self) -> None:
        """Remove all faults."""
        self._database.fetch(text("DELETE FROM faults"))

    def met(self) -> int:
        """Return the number of failed writes; a sequence counts them, so that rollbacks do not change the number."""
        row = self._database.fetch(text("SELECT last_value, is_called FROM faults_met"))[0]
        return int(row.last_value) if row.is_called else 0
