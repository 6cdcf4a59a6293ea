"""Retention of results: endpoints may keep what their receivers answered for a shorter time than executions."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Add the columns; processes that do not know them keep results as long as executions."""
    online.add_column("endpoints", "result_retention_ms", "BIGINT")
    online.add_column("executions", "result_retention_ms", "BIGINT")
    online.add_column("executions", "result_pruned_at", "TIMESTAMPTZ")
    online.create_index(
        "idx_executions_results",
        "executions",
        ["shard", "result_retention_ms", "completed_at", "execution_id"],
        where="result_retention_ms IS NOT NULL AND result_pruned_at IS NULL AND completed_at IS NOT NULL",
    )


def downgrade() -> None:
    """Drop them; results are kept as long as executions again."""
    online.drop_index("idx_executions_results")
    for table, column in (
        ("executions", "result_pruned_at"),
        ("executions", "result_retention_ms"),
        ("endpoints", "result_retention_ms"),
    ):
        op.execute(text(f"ALTER TABLE {table} DROP COLUMN IF EXISTS {column}"))
