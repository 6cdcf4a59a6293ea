"""Registry of the hand-written statements.

Each is registered by name, so that tests can walk them: PostgreSQL prepares each, and a lint refuses spellings that
CockroachDB is known to refuse.
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
