"""The cost of a statement: blocks that it reads. Only PostgreSQL reports them."""

import re
from collections.abc import Mapping

from sqlalchemy import TextClause, text

from app.kernel.db import Database


def blocks(database: Database, statement: TextClause, params: Mapping[str, object]) -> int:
    """Run a statement, roll back, and return the number of blocks read."""
    with database.engine.connect() as connection:
        plan = connection.execute(text(f"EXPLAIN (ANALYZE, BUFFERS) {statement.text}"), params).scalars().all()
        connection.rollback()
    top = next(line for line in plan if "Buffers:" in line)
    return sum(int(number) for number in re.findall(r"(?:hit|read)=(\d+)", top))
