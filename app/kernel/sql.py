"""Registry of the hand-written statements, by name.

In tests, PostgreSQL prepares each statement, and a lint refuses spellings that CockroachDB refuses.
"""

import re
from collections.abc import Mapping
from typing import TypeVar

from sqlalchemy import Executable, TextClause


class NamedStatement(TextClause):
    inherit_cache = True

    def __init__(self, name: str, sql: str) -> None:
        super().__init__(sql)
        self.name = name


class HotStatement(NamedStatement):
    """A statement of each job, of each batch of jobs, or of each second of an idle process.

    `Database.fetch` and `app.kernel.db.hot.run_in` prepare it.
    """

    inherit_cache = True


T = TypeVar("T", bound=NamedStatement)

REGISTRY: dict[str, TextClause] = {}
IN_REGIONS: dict[Executable, TextClause] = {}
"""The second form of statements that choose work: it chooses rows of `:regions` only."""
OF_SEVERAL: dict[Executable, tuple[NamedStatement, Mapping[str, str]]] = {}
"""The form of statements that `read_together` registered, and the types of its arrays by parameter."""

_PLACE = re.compile(r"@regions\((\w*)\)")


def statement(name: str, sql: str, /, **parts: object) -> NamedStatement:
    """Register a statement by a unique name and return it.

    The text has `:name` for a parameter and, if there are parts, `{name}` for a part: a condition, a CTE or a list of
    columns that several statements share, or a constant. `@regions(table)` after a condition is empty in the statement,
    and the condition on regions in its second form.
    """
    return _registered(NamedStatement, name, sql.format(**parts) if parts else sql)


def hot_statement(name: str, sql: str, /, **parts: object) -> HotStatement:
    """Register a hot statement and return it; arguments as for `statement`."""
    return _registered(HotStatement, name, sql.format(**parts) if parts else sql)


def read_together(single: NamedStatement, **types: str) -> None:
    """Register a second form of a statement that reads: for several values of some of its parameters.

    The second form takes an array for each parameter in `types`, which are types of SQL, and an array `:nth` of numbers
    that its rows return. Other parameters are the same for all, as LIMIT needs. The statement has no CTE, and the name
    `several` is free in it. `app.kernel.db.gathered_reads` runs the second form.
    """
    of_each = re.sub(rf"(?<![:\w]):({'|'.join(types)})\b", r"several.\1", single.text)
    arrays = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in ({"nth": "BIGINT"} | types).items())
    text = f"""
    SELECT several.nth, found.* FROM unnest({arrays}) AS several (nth, {", ".join(types)})
     CROSS JOIN LATERAL ({of_each}) AS found
    """  # noqa: S608 - constants of this package
    OF_SEVERAL[single] = _named(NamedStatement, f"{single.name}_of_several", text), types


def of_regions(table: str = "") -> str:
    """Return the placeholder `@regions(table)`, for parts that are built by a function."""
    return f"@regions({table})"


def in_regions(table: str) -> str:
    """Return the condition that replaces the placeholder in the second form."""
    return f" AND {f'{table}.' if table else ''}crdb_region = ANY (CAST(:regions AS TEXT[]))"


def _registered(kind: type[T], name: str, sql: str) -> T:
    clause = _named(kind, name, _PLACE.sub("", sql))
    if _PLACE.search(sql):
        narrowed = _PLACE.sub(lambda place: in_regions(place[1]), sql)
        IN_REGIONS[clause] = _named(kind, f"{name}_in_regions", narrowed)
    return clause


def _named(kind: type[T], name: str, sql: str) -> T:
    if name in REGISTRY:
        raise ValueError(f"two statements are called {name!r}")
    clause = REGISTRY[name] = kind(name, sql)
    return clause
