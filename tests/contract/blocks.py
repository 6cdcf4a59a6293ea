"""What a statement costs in blocks that it reads; only PostgreSQL tells."""

import re
from collections.abc import Mapping

from sqlalchemy import TextClause, text

from app.kernel.db import Database


def blocks(database: Database, statement: TextClause, params: Mapping[str, object]) -> int:
    """Run a statement, undo it, and return how many blocks it read."""
    with database.engine.connect() as connection:
        plan = connection.execute(text(f"EXPLAIN (ANALYZE, BUFFERS) {statement.text}"), params).scalars().all()
        connection.rollback()
    top = next(line for line in plan if "Buffers:" in line)
    return sum(int(number) for number in re.findall(r"(?:hit|read)=(\d+)", top))
