"""Callbacks: other endpoints that are told how executions of an endpoint or of a job end."""

from importlib import import_module

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0026"
down_revision = "0025"

# Which ends of a job that te_enqueue creates are followed, by the callbacks of its endpoint
# (app.queue.ending.subscriptions), and that its execution takes it over.
FOLLOWED = """NULLIF(CASE WHEN v_endpoint.callbacks ? 'on_success' THEN 1 ELSE 0 END
        + CASE WHEN v_endpoint.callbacks ? 'on_failure' THEN 2 ELSE 0 END
        + CASE WHEN v_endpoint.callbacks ? 'on_attempt_failed' THEN 8 ELSE 0 END, 0)"""
CHANGES = (
    ("max_attempts, run_at, trace_context, created_at)", "max_attempts, run_at, trace_context, created_at, followed)"),
    ("te_enqueue.traceparent, v_now)", f"te_enqueue.traceparent, v_now, {FOLLOWED})"),
    ("status, run_at, scheduled_at, created_at)", "status, run_at, scheduled_at, created_at, followed)"),
    ("v_status, v_due, v_due, v_now\n", "v_status, v_due, v_due, v_now, j.followed\n"),
)


def upgrade() -> None:
    """Add the columns; processes that do not know them write NULL, which calls nobody."""
    for table in ("endpoints", "endpoint_versions", "jobs"):
        online.add_column(table, "callbacks", "JSONB")
    online.add_column("jobs", "followed", "BIGINT")
    online.add_column("jobs", "callback_of", "TEXT")
    op.execute(text("INSERT INTO catalog_revision (id, revision) VALUES ('callbacks', 0) ON CONFLICT (id) DO NOTHING"))
    _replace_te_enqueue(CHANGES)


def downgrade() -> None:
    """Drop them: nobody is called back any more."""
    _replace_te_enqueue(())
    op.execute(text("DELETE FROM catalog_revision WHERE id = 'callbacks'"))
    for column in ("callback_of", "followed", "callbacks"):
        op.execute(text(f"ALTER TABLE jobs DROP COLUMN IF EXISTS {column}"))
    for table in ("endpoint_versions", "endpoints"):
        op.execute(text(f"ALTER TABLE {table} DROP COLUMN IF EXISTS callbacks"))


def _replace_te_enqueue(changes: tuple[tuple[str, str], ...]) -> None:
    if online.is_cockroach():
        return
    function: str = import_module("schema.migrations.versions.0024_te_enqueue").FUNCTION
    for before, after in changes:
        if function.count(before) != 1:
            raise LookupError(before)
        function = function.replace(before, after)
    (schema,) = op.get_bind().execute(text("SELECT quote_ident(current_schema())")).one()
    op.execute(text(function.format(schema=schema)))
