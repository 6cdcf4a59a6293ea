"""A dump of the whole database as text."""

from sqlalchemy import text

from app.kernel.db import Database
from schema.tables import metadata


def dump(database: Database) -> str:
    """Read every row of every table as text."""
    found = [
        str(tuple(row))
        for table in metadata.sorted_tables
        for row in database.fetch(text(f"SELECT t.*, CAST(t AS TEXT) AS whole FROM {table.name} AS t"))
    ]
    return "\n".join(found)
