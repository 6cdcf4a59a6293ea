"""A database that refuses to let claims end with any SQLSTATE, on demand."""

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
    """Faults of one database: each on the row with a key, or on every row."""

    def __init__(self, database: Database) -> None:
        self._database = database
        with database.engine.begin() as connection:
            connection.exec_driver_sql(_INSTALL.replace("%'", "%%'"))

    def set(self, state: str, place: str = EVERY_ROW, message: str = "injected") -> None:
        """Fail from now on whatever ends the claim of this execution, or renews the lease of this worker."""
        insert = text("INSERT INTO faults VALUES (:place, :state, :message)")
        self._database.fetch(insert, {"place": place, "state": state, "message": message})

    def clear(self) -> None:
        """Let everything pass again."""
        self._database.fetch(text("DELETE FROM faults"))

    def met(self) -> int:
        """Count how often a fault was met; no rollback takes it back."""
        row = self._database.fetch(text("SELECT last_value, is_called FROM faults_met"))[0]
        return int(row.last_value) if row.is_called else 0
