"""Schema drift: tables, columns, indexes and constraints that this code expects and the database lacks."""

from collections.abc import Iterator

from sqlalchemy import Index, Inspector, inspect
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex

from app.features.doctor import constraints
from app.kernel.sql import statement
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import Finding
from schema import schema_version
from schema.tables import metadata

UPGRADE = "run `flask --app app db upgrade`"
RESTORE = "restore it from a backup: by its revision the database has had it"

# Left by an interrupted CREATE INDEX CONCURRENTLY: costs each write, and no read can use it.
INVALID = statement(
    "doctor.invalid_indexes",
    """
    SELECT c.relname AS name FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
      JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE NOT i.indisvalid AND n.nspname = current_schema()
    """,
)


def revision(context: ChoreContext) -> Iterator[Finding]:
    """Compare the revision of the database with the newest revision of this code."""
    found, newest = context.database.transact(schema_version.current), schema_version.head()
    if found is None:
        yield Finding("schema", "the database was never migrated", UPGRADE, ends=True)
    elif found < newest:
        problem = f"the database is at revision {found}, this code needs {newest}"
        yield Finding("schema", problem, UPGRADE, ends=True)
    elif found > newest:
        problem = f"the database is at revision {found}, which is newer than this code ({newest})"
        yield Finding("schema", problem, "install the release that migrated it here, too")


def shape(context: ChoreContext) -> Iterator[Finding]:
    """Compare tables, columns, indexes and constraints with those of this code."""
    found = context.database.transact(lambda connection: list(_differences(inspect(connection))))
    yield from found
    # Constraints are only compared at the same revision: newer code may have replaced some.
    if (
        not any(each.ends for each in found)
        and context.database.transact(schema_version.current) == schema_version.head()
    ):
        yield from context.database.transact(lambda connection: list(constraints.differences(inspect(connection))))
    if not context.database.is_cockroach:
        for row in context.database.fetch(INVALID):
            fix = f"DROP INDEX CONCURRENTLY {row.name}; then create it again as schema/tables has it"
            yield Finding("schema", f"the index {row.name} is invalid: its creation was interrupted", fix)
        yield from constraints.never_validated(context.database.fetch(constraints.NOT_VALID))


def _differences(inspector: Inspector) -> Iterator[Finding]:
    present = set(inspector.get_table_names())
    for table in metadata.sorted_tables:
        if table.name not in present:
            yield Finding("schema", f"the table {table.name} is missing", RESTORE, ends=True)
            continue
        columns = {column["name"] for column in inspector.get_columns(table.name)}
        for missing in sorted({column.name for column in table.columns} - columns):
            yield Finding("schema", f"the column {table.name}.{missing} is missing", RESTORE, ends=True)
        indexes = {index["name"] for index in inspector.get_indexes(table.name)}
        for index in sorted(table.indexes, key=lambda each: str(each.name)):
            if index.name not in indexes:
                yield Finding("schema", f"the index {index.name} of {table.name} is missing", _creation(index))


def _creation(index: Index) -> str:
    written = str(CreateIndex(index).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
    return " ".join(written.split()).replace("INDEX", "INDEX CONCURRENTLY", 1)
