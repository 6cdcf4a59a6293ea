"""Moved clock: a database whose time functions return the machine's time plus a shift.

The functions are in a schema that precedes `pg_catalog` on the search path of each connection. So `now()` in each
statement and each column default of the product is the moved time, and no line of the product changes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import psycopg2

_SCHEMA = """
CREATE SCHEMA te_clock;
CREATE TABLE te_clock.moved (shift interval NOT NULL, clears integer NOT NULL);
"""
_BEGIN = "INSERT INTO te_clock.moved VALUES (%s, 0)"
# A STABLE function reads the shift at the start of its statement, a VOLATILE function the shift at its call.
_FUNCTIONS = {
    "now": "STABLE",
    "transaction_timestamp": "STABLE",
    "statement_timestamp": "STABLE",
    "clock_timestamp": "VOLATILE",
}
_FUNCTION = """
CREATE FUNCTION te_clock.{name}() RETURNS timestamptz LANGUAGE plpgsql {volatility} PARALLEL SAFE AS
  'BEGIN RETURN pg_catalog.{name}() + (SELECT shift FROM te_clock.moved); END';
"""
# The first schema is the schema of new tables, so it stays `public`.
_PATH = "public, te_clock, pg_catalog"
# These functions have search paths of their own.
_OF_FUNCTIONS = """
DO $$ DECLARE named regprocedure; BEGIN
  FOR named IN SELECT oid FROM pg_proc
                WHERE proname IN ('te_enqueue', 'te_register_inline') OR proname LIKE 'te\\_limiter\\_%' LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = te_clock, pg_catalog, pg_temp', named);
  END LOOP;
END $$
"""
# No time passes for the processes, so the leases of workers end as much later. The revision makes workers forget until
# when limits are closed.
_MOVE = """
WITH distance AS MATERIALIZED (SELECT {distance} AS time),
     leases AS (UPDATE workers SET lease_expires_at = lease_expires_at + (SELECT time FROM distance)),
     rules AS (UPDATE catalog_revision SET revision = revision + 1
                WHERE id = 'flow' AND EXISTS (SELECT 1 FROM endpoints WHERE limits IS NOT NULL))
UPDATE te_clock.moved SET shift = shift + (SELECT time FROM distance)
"""
_FORWARDS = _MOVE.format(distance="GREATEST(%s - clock_timestamp(), interval '0')")
_BACK = _MOVE.format(distance="(SELECT -shift FROM te_clock.moved)")


class MovedClock:
    """Clock of a database of the stack for tests, over a connection of its own; one thread uses it.

    Errors of the database are raised as `psycopg2.Error`.
    """

    def __init__(self, url: str, back: timedelta = timedelta(0)) -> None:
        """Create the clock in an empty database, set back by `back`; open connections keep the machine's time."""
        self._connection = psycopg2.connect(url)
        self._connection.autocommit = True
        self.run(_SCHEMA + "".join(_FUNCTION.format(name=name, volatility=kind) for name, kind in _FUNCTIONS.items()))
        self.run(_BEGIN, [-back])
        self.run(f"ALTER DATABASE {self._connection.info.dbname} SET search_path = {_PATH}; SET search_path = {_PATH}")

    def close(self) -> None:
        self._connection.close()

    def reach_functions(self) -> None:
        """Make the functions of the product use this clock; call it after the migration."""
        self.run(_OF_FUNCTIONS)

    def now(self) -> datetime:
        """Return the moved time."""
        instant: datetime = self.rows("SELECT clock_timestamp()")[0][0]
        return instant

    def move(self, to: datetime) -> None:
        """Move the clock forwards to an instant; an instant in the past changes nothing."""
        self.run(_FORWARDS, [to])

    def go_back(self) -> None:
        """Return to the machine's time."""
        self.run(_BACK)

    def count_clear(self) -> None:
        """Count the end of a test, at which workers forget results of deliveries."""
        self.run("UPDATE te_clock.moved SET clears = clears + 1")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the commands of the block in one transaction."""
        self.run("BEGIN")
        try:
            yield
        except BaseException:
            self.run("ROLLBACK")
            raise
        self.run("COMMIT")

    def rows(self, query: str, parameters: Sequence[object] | None = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self._connection.cursor() as cursor:
            cursor.execute(query, parameters)
            return list(cursor.fetchall())

    def run(self, command: str, parameters: Sequence[object] | None = None) -> None:
        """Run commands that return no rows."""
        with self._connection.cursor() as cursor:
            cursor.execute(command, parameters)
