"""Functions in the database: each upgrade installs the text of its own release, after all revisions.

Revisions hold no text of functions, so a change of a function changes no released revision. Until an upgrade installs
the new function, the function of the previous release runs on the new schema, as processes of that release do.
"""

import re
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, text

from schema import inline_bounds, job_bounds, limiter_bounds
from schema.states import FOLLOWED_BY

FILES = ("te_enqueue", "te_send", "te_limiter")  # in the order of their calls
_FOLDER = Path(__file__).parent
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_NAME = re.compile(r"^CREATE OR REPLACE FUNCTION \{schema\}\.(\w+)", re.MULTILINE)
_SCHEMA = text("SELECT quote_ident(current_schema())")
_INSTALLED = text("SELECT proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace")


def sql_of(file: str, schema: str) -> str:
    """Return the statements that create or replace the functions of a file; `schema` is a name quoted for SQL.

    A name in braces is a constant of `schema.job_bounds`, `inline_bounds` or `limiter_bounds` in lower case, or
    `followed_` and the name of an event.
    """
    values = {f"followed_{event}": int(bit) for event, bit in FOLLOWED_BY.items()} | {"schema": schema}
    bounds = vars(job_bounds) | vars(inline_bounds) | vars(limiter_bounds)
    return _PLACEHOLDER.sub(lambda name: str(values.get(name[1]) or _written(bounds[name[1].upper()])), _text(file))


def names() -> list[str]:
    """Return the names of all functions."""
    return [name for file in FILES for name in _NAME.findall(_text(file))]


def _text(file: str) -> str:
    return (_FOLDER / f"{file}.sql").read_text()


def _written(bound: object) -> object:
    if isinstance(bound, re.Pattern):
        return bound.pattern.replace("'", "''")
    return bound.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(bound, datetime) else bound


def install(connection: Connection) -> None:
    """Create the functions for their owner only, or replace them and keep their grants; PostgreSQL only.

    PostgreSQL runs statements that are sent together in one transaction.
    """
    if connection.dialect.name != "postgresql":
        return
    schema = connection.execute(_SCHEMA).scalar_one()
    installed = set(connection.execute(_INSTALLED).scalars())
    statements = [sql_of(file, schema) for file in FILES]
    statements += [f"REVOKE ALL ON FUNCTION {schema}.{name} FROM PUBLIC;" for name in names() if name not in installed]
    connection.execute(text("\n".join(statements).replace(":", r"\:")))
