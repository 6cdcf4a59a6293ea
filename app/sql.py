"""Registry of the hand-written statements.

Each is registered by name, so that tests can walk them: PostgreSQL prepares each, and a lint refuses spellings that
CockroachDB is known to refuse.
"""

from sqlalchemy import TextClause, text


class HotStatement(TextClause):
    """A statement that runs with each job, or each batch of them: `app.db.hot` runs it outside of transactions.

    In a transaction it is a text like any other.
    """

    inherit_cache = True

    def __init__(self, name: str, sql: str) -> None:
        super().__init__(sql)
        self.name = name


REGISTRY: dict[str, TextClause] = {}


def statement(name: str, sql: str) -> TextClause:
    """Register a statement under a unique name and return it."""
    return _registered(name, text(sql))


def hot_statement(name: str, sql: str) -> TextClause:
    """Register a hot statement under a unique name and return it."""
    return _registered(name, HotStatement(name, sql))


def _registered(name: str, clause: TextClause) -> TextClause:
    if name in REGISTRY:
        raise ValueError(f"two statements are called {name!r}")
    REGISTRY[name] = clause
    return clause
