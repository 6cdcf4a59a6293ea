"""Functions in the database: each upgrade installs the text of its own release, after all revisions.

Revisions hold no text of functions, so a change of a function changes no released revision. Until an upgrade installs
the new function, the function of the previous release runs on the new schema, as processes of that release do.
"""

import re
from pathlib import Path

from sqlalchemy import Connection, text

from schema import job_bounds
from schema.states import FOLLOWED_BY, CallbackEvent

_FOLDER = Path(__file__).parent
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")
_INSTANT = "%Y-%m-%dT%H:%M:%SZ"
_TARGET = text(
    "SELECT quote_ident(current_schema()) AS schema, EXISTS (SELECT FROM pg_proc "
    "WHERE proname = 'te_enqueue' AND pronamespace = current_schema()::regnamespace) AS has_it"
)

CONSTANTS: dict[str, object] = {
    "max_name": job_bounds.MAX_NAME,
    "max_input_bytes": job_bounds.MAX_INPUT_BYTES,
    "max_json_depth": job_bounds.MAX_JSON_DEPTH,
    "max_number": job_bounds.MAX_NUMBER,
    "max_idempotency_key": job_bounds.MAX_IDEMPOTENCY_KEY,
    "max_job_name": job_bounds.MAX_JOB_NAME,
    "queue_name": job_bounds.QUEUE_NAME.pattern,
    "max_priority": job_bounds.MAX_PRIORITY,
    "earliest_instant": job_bounds.EARLIEST_INSTANT.strftime(_INSTANT),
    "latest_instant": job_bounds.LATEST_INSTANT.strftime(_INSTANT),
    "max_labels": job_bounds.MAX_LABELS,
    "max_label_prefix": job_bounds.MAX_LABEL_PREFIX,
    "label_key": job_bounds.LABEL_KEY.pattern,
    "label_value": job_bounds.LABEL_VALUE.pattern,
    "max_limit_key": job_bounds.MAX_LIMIT_KEY,
    "followed_on_success": int(FOLLOWED_BY[CallbackEvent.ON_SUCCESS]),
    "followed_on_failure": int(FOLLOWED_BY[CallbackEvent.ON_FAILURE]),
    "followed_on_attempt_failed": int(FOLLOWED_BY[CallbackEvent.ON_ATTEMPT_FAILED]),
}
"""Values of the names in braces in te_enqueue.sql, except `schema`."""


def te_enqueue(schema: str) -> str:
    """Return the statements that create or replace `te_enqueue`; `schema` is a name quoted for SQL."""
    values = CONSTANTS | {"schema": schema}
    return _PLACEHOLDER.sub(lambda name: str(values[name[1]]), (_FOLDER / "te_enqueue.sql").read_text())


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
