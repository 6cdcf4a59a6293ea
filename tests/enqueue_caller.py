"""A role of the database that creates jobs by te_enqueue, and the endpoints that it may want."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg2
from sqlalchemy import text
from sqlalchemy.engine import make_url
from task_executor_client.transaction import EnqueueError, enqueue

from app.kernel.db import Database
from tests import rows
from tests.enqueueing import adopt_settings

PASSWORD = "secret of a test"
ENDPOINTS = ("mail-now", "mail_now", "mailbox", "pay")


class Caller:
    """A role of the database that logs in, with EXECUTE on both functions, and its group."""

    def __init__(self, database: Database, url: str) -> None:
        self._database, self._url = database, make_url(url)
        self.name = f"caller_{self._url.database}"[:60]
        self.group = f"group_{self._url.database}"[:60]

    def create(self) -> None:
        self.run(f"CREATE ROLE {self.group}; CREATE ROLE {self.name} LOGIN PASSWORD '{PASSWORD}' IN ROLE {self.group}")
        self.run(f"GRANT EXECUTE ON FUNCTION te_enqueue TO {self.name}")

    def drop(self) -> None:
        self.run(f"DROP OWNED BY {self.name}, {self.group}; DROP ROLE {self.name}; DROP ROLE {self.group}")

    def run(self, statements: str) -> None:
        self._database.fetch(text(f"DO $$ BEGIN {statements}; END $$"))

    def grant(self, role: str, pattern: str) -> None:
        insert = "INSERT INTO te_grants (role_name, pattern) VALUES (:role, :pattern) RETURNING pattern"
        self._database.fetch(text(insert), {"role": role, "pattern": pattern})

    @contextmanager
    def connection(self) -> Iterator[Any]:
        url = self._url.set(drivername="postgresql", username=self.name, password=PASSWORD)
        with closing(psycopg2.connect(url.render_as_string(hide_password=False))) as connection:
            connection.autocommit = True
            yield connection

    def inline_endpoint(self) -> str:
        (row,) = self._database.fetch(text("SELECT name FROM endpoints WHERE name LIKE 'inline-%'"))
        return str(row.name)

    def reached(self) -> set[str]:
        """Return the endpoints of which the role creates jobs."""
        with self.connection() as connection:
            return {name for name in ENDPOINTS if self._may(connection, name)}

    def _may(self, connection: Any, endpoint: str) -> bool:
        try:
            enqueue(connection, endpoint)
        except EnqueueError as error:
            if error.code != "FORBIDDEN":
                raise
            return False
        return True


@contextmanager
def calling(database: Database, url: str) -> Iterator[Caller]:
    """Create the endpoints and a role, which is dropped at the end."""
    adopt_settings(database)
    for name in ENDPOINTS:
        rows.add_endpoint(database, name=name)
    caller = Caller(database, url)
    caller.create()
    yield caller
    caller.drop()
