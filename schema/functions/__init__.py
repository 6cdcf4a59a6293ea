"""Functions in the database: each upgrade installs the text of its own release, after all revisions.

Revisions hold no text of functions, so a change of a function changes no released revision. Until an upgrade installs
the new function, the function of the previous release runs on the new schema, as processes of that release do.
"""

import re
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, text

from schema import job_bounds
from schema.states import FOLLOWED_BY

_FOLDER = Path(__file__).parent
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_TARGET = text(
    "SELECT quote_ident(current_schema()) AS schema, EXISTS (SELECT FROM pg_proc "
    "WHERE proname = 'te_enqueue' AND pronamespace = current_schema()::regnamespace) AS has_it"
)


def te_enqueue(schema: str) -> str:
    """Return the statements that create or replace `te_enqueue`; `schema` is a name quoted for SQL.

    A name in braces is a constant of `schema.job_bounds` in lower case, or `followed_` and the name of an event.
    """
    values = {f"followed_{event}": int(bit) for event, bit in FOLLOWED_BY.items()} | {"schema": schema}
    return _PLACEHOLDER.sub(
        lambda name: str(values.get(name[1]) or _written(getattr(job_bounds, name[1].upper()))),
        (_FOLDER / "te_enqueue.sql").read_text(),
    )


def _written(bound: object) -> object:
    if isinstance(bound, re.Pattern):
        return bound.pattern
    return bound.strftime("%Y-%m-%dT%H:%M:%SZ") if isinstance(bound, datetime) else bound


def install(connection: Connection) -> None:
    """Create `te_enqueue` for its owner only, or replace it and keep its grants; PostgreSQL only.

    PostgreSQL runs statements that are sent together in one transaction.
    """
    if connection.dialect.name != "postgresql":
        return
    target = connection.execute(_TARGET).one()
    statements = te_enqueue(target.schema)
    if not target.has_it:
        statements += f"REVOKE ALL ON FUNCTION {target.schema}.te_enqueue FROM PUBLIC;\n"
    connection.execute(text(statements.replace(":", r"\:")))
