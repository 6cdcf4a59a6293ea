"""Constraints of the database, compared with those that this code expects.

PostgreSQL and CockroachDB rewrite CHECK conditions differently. The comparison therefore covers columns, words and
numbers, which finds a different list of values or a different bound.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from sqlalchemy import CheckConstraint, Constraint, ForeignKeyConstraint, Inspector, Table, UniqueConstraint
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import AddConstraint

from app.kernel.sql import statement
from app.scheduler.finding import Finding
from schema.tables import metadata

# Left by an interrupted migration: enforced for new rows, not verified for older rows. PostgreSQL only.
NOT_VALID = statement(
    "doctor.constraints_not_valid",
    """
    SELECT c.conname AS name, t.relname AS of_table FROM pg_constraint AS c JOIN pg_class AS t ON t.oid = c.conrelid
      JOIN pg_namespace AS n ON n.oid = t.relnamespace
     WHERE NOT c.convalidated AND n.nspname = current_schema() ORDER BY t.relname, c.conname
    """,
)
_OF_COCKROACH = ("check_crdb_internal_", "crdb_internal_")
_TOKEN = re.compile(r"'(?:[^']|'')*'|[A-Za-z_]\w*|\d+")

Meaning = tuple[object, ...]
"""Comparable form of a constraint: equal for constraints that mean the same."""


def differences(inspector: Inspector) -> Iterator[Finding]:
    """Compare the CHECKs, foreign keys and unique constraints of all tables with those of this code."""
    found = _StoredConstraints(inspector)
    for table in metadata.sorted_tables:
        yield from _of_table(table, found.of(table))


def never_validated(rows: Iterable[Any]) -> Iterator[Finding]:
    """Report the rows of NOT_VALID."""
    for row in rows:
        problem = f"the constraint {row.name} of {row.of_table} was never validated: its creation was interrupted"
        yield Finding("schema", problem, f"ALTER TABLE {row.of_table} VALIDATE CONSTRAINT {row.name}")


class _StoredConstraints:
    """Constraints of the database, read once for all tables."""

    def __init__(self, inspector: Inspector) -> None:
        self._checks = inspector.get_multi_check_constraints()
        self._keys = inspector.get_multi_foreign_keys()
        # CockroachDB may report a unique constraint as an index only.
        unique, indexes = inspector.get_multi_unique_constraints(), inspector.get_multi_indexes()
        self._unique = {(*at, each["name"]) for at, found in unique.items() for each in found}
        self._unique |= {(*at, each["name"]) for at, found in indexes.items() for each in found if each["unique"]}

    def of(self, table: Table) -> dict[str, Meaning]:
        """Return the constraints of a table by name."""
        at = (None, table.name)
        found: dict[str, Meaning] = {str(name): ("unique",) for *of, name in self._unique if tuple(of) == at}
        for check in self._checks.get(at, ()):
            if not str(check["name"]).startswith(_OF_COCKROACH):
                found[str(check["name"])] = ("check", essence(check["sqltext"], table.columns.keys()))
        for key in self._keys.get(at, ()):
            to = key["referred_table"], *key["referred_columns"]
            found[str(key["name"])] = ("foreign key", *key["constrained_columns"], *to)
        return found


def essence(condition: str, columns: Collection[str]) -> frozenset[str]:
    """Return the columns, words and numbers of a condition, which both databases write alike."""
    tokens = _TOKEN.findall(condition)
    return frozenset(each for each in tokens if each in columns or each[0] == "'" or each[0].isdigit())


def _of_table(table: Table, found: dict[str, Meaning]) -> Iterator[Finding]:
    wanted = {str(each.name): (each, meaning) for each in table.constraints if (meaning := _meaning(each))}
    for name, (constraint, meaning) in sorted(wanted.items()):
        if name not in found:
            yield Finding("schema", f"the constraint {name} of {table.name} is missing", _creation(constraint))
        elif found[name] != meaning:
            problem = f"the constraint {name} of {table.name} differs from this code"
            drop = f"ALTER TABLE {table.name} DROP CONSTRAINT {name}"
            yield Finding("schema", problem, f"{drop}; {_creation(constraint)}")
    for name, meaning in sorted(found.items()):
        if name not in wanted and meaning != ("unique",):
            problem = f"the constraint {name} of {table.name} is unknown to this code and may reject its rows"
            yield Finding(
                "schema", problem, f"unless you know what it is for, ALTER TABLE {table.name} DROP CONSTRAINT {name}"
            )


def _meaning(constraint: Constraint) -> Meaning | None:
    """Return the comparable form of a constraint of this code; None for kinds that are not compared."""
    if isinstance(constraint, CheckConstraint):
        return ("check", essence(str(constraint.sqltext), constraint.table.columns.keys()))
    if isinstance(constraint, ForeignKeyConstraint):
        to = constraint.referred_table.name, *(each.column.name for each in constraint.elements)
        return ("foreign key", *constraint.column_keys, *to)
    return ("unique",) if isinstance(constraint, UniqueConstraint) else None


def _creation(constraint: Constraint) -> str:
    written = " ".join(str(AddConstraint(constraint).compile(dialect=postgresql.dialect())).split())  # type: ignore[no-untyped-call]
    if isinstance(constraint, UniqueConstraint):
        return written
    return f"{written} NOT VALID; ALTER TABLE {constraint.table.name} VALIDATE CONSTRAINT {constraint.name}"
