"""Values sent to the database as the text of an array."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from app.kernel.db import Database
from app.kernel.formats import array_literal

INSTANT = datetime(2026, 2, 28, 23, 59, 59, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("TEXT", []),
        ("TEXT", ["exec_1", "", "NULL", None, " a,b ", "{c}", 'd"e"', "f\\g", "h\\", "'i'", "line\nline", "ü"]),
        ("BIGINT", [0, -1, 2**62]),
        ("TIMESTAMPTZ", [INSTANT, None, INSTANT.replace(microsecond=0)]),
    ],
)
def test_database_reads_each_value_unchanged(database: Database, type_: str, values: list[object]) -> None:
    select = text(f"SELECT CAST(:given AS {type_}[]) AS given")
    assert database.fetch(select, {"given": array_literal(values)})[0].given == values
