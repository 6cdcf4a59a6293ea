"""Bulk operations: executions that are cancelled, retried or rescheduled by a filter, in their order and at a rate."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0033"
down_revision = "0032"

BULK_OPERATIONS = (
    "operation_id TEXT NOT NULL, action TEXT NOT NULL, status TEXT NOT NULL, wanted JSONB NOT NULL, "
    "parameters JSONB NOT NULL, rate BIGINT NOT NULL, actor TEXT, changed BIGINT DEFAULT 0 NOT NULL, "
    "refused BIGINT DEFAULT 0 NOT NULL, last_refusal TEXT, reached_at TIMESTAMPTZ, reached_id TEXT DEFAULT '' NOT NULL, "
    "holder TEXT, held_until TIMESTAMPTZ, created_at TIMESTAMPTZ DEFAULT now() NOT NULL, ended_at TIMESTAMPTZ, "
    "CONSTRAINT pk_bulk_operations PRIMARY KEY (operation_id), "
    "CONSTRAINT chk_bulk_operations_action CHECK (action IN ('cancel', 'retry', 'reschedule')), "
    "CONSTRAINT chk_bulk_operations_status CHECK (status IN ('RUNNING', 'PAUSED', 'STOPPED', 'DONE')), "
    "CONSTRAINT chk_bulk_operations_ended CHECK ((status IN ('STOPPED', 'DONE')) = (ended_at IS NOT NULL))"
)


def upgrade() -> None:
    """Create the table; each step may be repeated."""
    op.execute(text(f"CREATE TABLE IF NOT EXISTS bulk_operations ({BULK_OPERATIONS})"))
    columns = ["created_at", "operation_id"]
    online.create_index("idx_bulk_operations_created", "bulk_operations", columns, leads_with_time=True)
    online.create_index("idx_bulk_operations_running", "bulk_operations", ["operation_id"], where="status = 'RUNNING'")


def downgrade() -> None:
    """Drop it: what was under way ends where it is."""
    op.execute(text("DROP TABLE IF EXISTS bulk_operations"))
