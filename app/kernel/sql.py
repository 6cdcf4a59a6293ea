"""Registry of the hand-written statements, by name.

In tests, PostgreSQL prepares each statement, and a lint refuses spellings that CockroachDB refuses.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Executable, TextClause, text

T = TypeVar("T", bound=TextClause)


class HotStatement(TextClause):
    """A statement that runs with each job, or each batch of them: `app.kernel.db.hot` runs it outside of transactions.

    In a transaction it is a text like any other.
    """

    inherit_cache = True

    def __init__(self, name: str, sql: str) -> None:
        super().__init__(sql)
        self.name = name


Make = Callable[[str, str], T]

REGISTRY: dict[str, TextClause] = {}
IN_REGIONS: dict[Executable, TextClause] = {}
"""For statements that choose what a process works on: their second form, which chooses in `:regions` only."""

_PLACE = re.compile(r"@regions\((\w*)\)")


def statement(name: str, sql: str) -> TextClause:
    """Register a statement under a unique name and return it."""
    return _registered(name, sql, _text)


def hot_statement(name: str, sql: str) -> HotStatement:
    """Register a hot statement under a unique name and return it."""
    return _registered(name, sql, HotStatement)


def of_regions(table: str = "") -> str:
    """Return the place in a statement, behind a condition, at which that of the regions may stand.

    It is empty in the statement itself; the second form has `AND crdb_region = …` of the table there.
    """
    return f"@regions({table})"


def in_regions(table: str) -> str:
    """Return what stands in such a place of the second form."""
    return f" AND {f'{table}.' if table else ''}crdb_region = ANY (CAST(:regions AS TEXT[]))"


def _text(_name: str, sql: str) -> TextClause:
    return text(sql)


def _in_regions(place: re.Match[str]) -> str:
    return in_regions(place[1])


def _registered(name: str, sql: str, make: Make[T]) -> T:
    clause = _named(name, _PLACE.sub("", sql), make)
    if _PLACE.search(sql):
        narrowed = _PLACE.sub(_in_regions, sql)
        IN_REGIONS[clause] = _named(f"{name}_in_regions", narrowed, make)
    return clause


def _named(name: str, sql: str, make: Make[T]) -> T:
    if name in REGISTRY:
        raise ValueError(f"two statements are called {name!r}")
    clause = make(name, sql)
    REGISTRY[name] = clause
    return clause
