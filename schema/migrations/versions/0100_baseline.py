"""Baseline: tables, indexes and first rows of the first release, from the SQL files in `schema/migrations/baseline`.

The files are frozen: a later change of `schema.tables` must not change what an older revision made. A test builds one
database from the revisions and one from the tables, and compares both. Revisions 0001 to 0036 made the schema of
unreleased versions; `migrate.upgrade` refuses databases that they made.
"""

from collections.abc import Iterator
from pathlib import Path

from alembic import op

from schema import online

revision = "0100"
down_revision = None

FOLDER = Path(__file__).parents[1] / "baseline"
TABLES = ("catalog", "jobs", "executions", "ending", "limits", "notifications", "service")
# An index that leads with a time would take all inserts in one range of CockroachDB: a hash in front spreads them.
SPREAD = "USING HASH"


def upgrade() -> None:
    """Create everything; each statement may be repeated."""
    for group in TABLES:
        for statement in _statements(group):
            op.execute(statement)
    if online.is_cockroach():
        for statement in _statements("cockroachdb"):
            online.execute_if_permitted(statement)
    else:
        for statement in _statements("postgresql"):
            op.execute(statement)


def _statements(file: str) -> Iterator[str]:
    lines = (FOLDER / f"{file}.sql").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith("--"))
    if online.is_cockroach():
        text = text.replace(f"/* {SPREAD} */", SPREAD)
    yield from filter(None, (statement.strip() for statement in text.split(";")))
