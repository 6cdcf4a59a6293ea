"""The registry of statements.

Every hand-written statement is made here by name, so that tests can walk all of them: PostgreSQL prepares each,
a lint refuses what CockroachDB does not take.
"""

from sqlalchemy import TextClause, text

REGISTRY: dict[str, TextClause] = {}


def statement(name: str, sql: str) -> TextClause:
    """Register a statement under a unique name and return it."""
    if name in REGISTRY:
        raise ValueError(f"two statements are called {name!r}")
    clause = text(sql)
    REGISTRY[name] = clause
    return clause
