"""Schema drift: tables, columns, indexes and constraints that this code expects and the database lacks.

PostgreSQL and CockroachDB rewrite CHECK conditions differently. Their comparison therefore covers columns, words and
numbers, which finds a different list of values or a different bound.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from operator import attrgetter

from sqlalchemy import CheckConstraint, Constraint, ForeignKeyConstraint, Inspector, UniqueConstraint, inspect
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import AddConstraint, CreateIndex

from app.kernel.sql import statement
from app.scheduler.chore import ChoreContext
from app.scheduler.finding import Finding
from schema import schema_version
from schema.tables import metadata

UPGRADE = "run `flask --app app db upgrade`"
RESTORE = "restore it from a backup: a database of this revision has it"
_OF_COCKROACH = ("check_crdb_internal_", "crdb_internal_")
_TOKEN = re.compile(r"'[^']*'|[A-Za-z_]\w*|\d+")

Meaning = tuple[object, ...]
"""Comparable form of a constraint: equal for constraints that mean the same."""

# Left by an interrupted CREATE INDEX CONCURRENTLY: costs each write, and no read can use it.
INVALID = statement(
    "doctor.invalid_indexes",
    """
    SELECT c.relname AS name FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
      JOIN pg_namespace AS n ON n.oid = c.relnamespace
     WHERE NOT i.indisvalid AND n.nspname = current_schema()
    """,
)
# Left by an interrupted migration: enforced for new rows, not verified for older rows. PostgreSQL only.
NOT_VALID = statement(
    "doctor.constraints_not_valid",
    """
    SELECT c.conname AS name, t.relname AS of_table FROM pg_constraint AS c JOIN pg_class AS t ON t.oid = c.conrelid
      JOIN pg_namespace AS n ON n.oid = t.relnamespace
     WHERE NOT c.convalidated AND n.nspname = current_schema() ORDER BY t.relname, c.conname
    """,
)


def revision(context: ChoreContext) -> Iterator[Finding]:
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
    database = context.database
    found = database.transact(lambda connection: list(_differences(inspect(connection))))
    yield from found
    # Constraints are only compared at the same revision: newer code may have replaced some.
    if not any(each.ends for each in found) and database.transact(schema_version.current) == schema_version.head():
        yield from database.transact(lambda connection: list(_constraints(inspect(connection))))
    if not database.is_cockroach:
        for row in database.fetch(INVALID):
            fix = f"DROP INDEX CONCURRENTLY {row.name}; then create it again as schema/tables has it"
            yield Finding("schema", f"the index {row.name} is invalid: its creation was interrupted", fix)
        for row in database.fetch(NOT_VALID):
            problem = f"the constraint {row.name} of {row.of_table} was never validated: its creation was interrupted"
            yield Finding("schema", problem, f"ALTER TABLE {row.of_table} VALIDATE CONSTRAINT {row.name}")


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
        for index in sorted(table.indexes, key=attrgetter("name")):
            if index.name not in indexes:
                yield Finding(
                    "schema",
                    f"the index {index.name} of {table.name} is missing",
                    _sql(CreateIndex(index)).replace("INDEX", "INDEX CONCURRENTLY", 1),
                )


def _constraints(inspector: Inspector) -> Iterator[Finding]:
    stored = _stored(inspector)
    for table in metadata.sorted_tables:
        found = stored[table.name]
        wanted = {str(each.name): (each, meaning) for each in table.constraints if (meaning := _meaning(each))}
        for name, (constraint, meaning) in sorted(wanted.items()):
            if name not in found:
                yield Finding("schema", f"the constraint {name} of {table.name} is missing", _creation(constraint))
            elif found[name] != meaning:
                problem = f"the constraint {name} of {table.name} differs from this code"
                drop = f"ALTER TABLE {table.name} DROP CONSTRAINT {name}"
                yield Finding("schema", problem, f"{drop}; {_creation(constraint)}")
        for name in sorted(name for name in found.keys() - wanted.keys() if found[name] != ("unique",)):
            problem = f"the constraint {name} of {table.name} is unknown to this code and may reject its rows"
            fix = f"unless you know what it is for, ALTER TABLE {table.name} DROP CONSTRAINT {name}"
            yield Finding("schema", problem, fix)


def _stored(inspector: Inspector) -> defaultdict[str, dict[str, Meaning]]:
    stored = defaultdict[str, dict[str, Meaning]](dict)
    # CockroachDB may report a unique constraint as an index only.
    for (_, table), indexes in inspector.get_multi_indexes().items():
        stored[table] |= {str(each["name"]): ("unique",) for each in indexes if each["unique"]}
    for (_, table), constraints in inspector.get_multi_unique_constraints().items():
        stored[table] |= {str(each["name"]): ("unique",) for each in constraints}
    for (_, table), checks in inspector.get_multi_check_constraints().items():
        for check in checks:
            if table in metadata.tables and not str(check["name"]).startswith(_OF_COCKROACH):
                columns = metadata.tables[table].columns.keys()
                stored[table][str(check["name"])] = ("check", essence(check["sqltext"], columns))
    for (_, table), keys in inspector.get_multi_foreign_keys().items():
        for key in keys:
            to = key["referred_table"], *key["referred_columns"]
            stored[table][str(key["name"])] = ("foreign key", *key["constrained_columns"], *to)
    return stored


def essence(condition: str, columns: Collection[str]) -> frozenset[str]:
    """Return the columns, words and numbers of a condition, which both databases write alike."""
    tokens = _TOKEN.findall(condition)
    return frozenset(each for each in tokens if each in columns or each[0] == "'" or each[0].isdigit())


def _meaning(constraint: Constraint) -> Meaning | None:
    """Return the comparable form of a constraint of this code; None for kinds that are not compared."""
    if isinstance(constraint, CheckConstraint):
        return ("check", essence(str(constraint.sqltext), constraint.table.columns.keys()))
    if isinstance(constraint, ForeignKeyConstraint):
        to = constraint.referred_table.name, *(each.column.name for each in constraint.elements)
        return ("foreign key", *constraint.column_keys, *to)
    return ("unique",) if isinstance(constraint, UniqueConstraint) else None


def _creation(constraint: Constraint) -> str:
    # By default the constraint would be missing from each later CREATE TABLE of this process.
    written = _sql(AddConstraint(constraint, isolate_from_table=False))
    if isinstance(constraint, UniqueConstraint):
        return written
    return f"{written} NOT VALID; ALTER TABLE {constraint.table.name} VALIDATE CONSTRAINT {constraint.name}"


def _sql(statement: CreateIndex | AddConstraint) -> str:
    return " ".join(str(statement.compile(dialect=postgresql.dialect())).split())  # type: ignore[no-untyped-call]
