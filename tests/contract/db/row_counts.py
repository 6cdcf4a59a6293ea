"""Numbers of rows in each table of a database, by which tests compare it with a new one."""

from contextlib import closing

from sqlalchemy import text

from app.kernel import db
from app.kernel.db import Database
from schema.tables import metadata


def opened(url: str) -> closing[Database]:
    return closing(db.connect(url, pool_size=1, application_name="te-test"))


def counts(database: Database) -> dict[str, int]:
    return {
        table.name: database.fetch(text(f"SELECT count(*) AS n FROM {table.name}"))[0].n
        for table in metadata.sorted_tables
    }
