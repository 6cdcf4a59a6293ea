"""Redrives: dead letters that are redriven by a filter, in their order and at a rate."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0028"
down_revision = "0027"

REDRIVES = (
    "redrive_id TEXT NOT NULL, status TEXT NOT NULL, wanted JSONB NOT NULL, to_endpoint TEXT, "
    "rate BIGINT NOT NULL, actor TEXT, redriven BIGINT DEFAULT 0 NOT NULL, "
    "refused BIGINT DEFAULT 0 NOT NULL, last_refusal TEXT, reached_at TIMESTAMPTZ, reached_id TEXT DEFAULT '' NOT NULL, "
    "holder TEXT, held_until TIMESTAMPTZ, created_at TIMESTAMPTZ DEFAULT now() NOT NULL, ended_at TIMESTAMPTZ, "
    "CONSTRAINT pk_redrives PRIMARY KEY (redrive_id), "
    "CONSTRAINT chk_redrives_status CHECK (status IN ('RUNNING', 'PAUSED', 'STOPPED', 'DONE')), "
    "CONSTRAINT chk_redrives_ended CHECK ((status IN ('STOPPED', 'DONE')) = (ended_at IS NOT NULL))"
)


def upgrade() -> None:
    """Create the table; each step may be repeated."""
    op.execute(text(f"CREATE TABLE IF NOT EXISTS redrives ({REDRIVES})"))
    online.create_index("idx_redrives_created", "redrives", ["created_at", "redrive_id"], leads_with_time=True)
    online.create_index("idx_redrives_running", "redrives", ["redrive_id"], where="status = 'RUNNING'")


def downgrade() -> None:
    """Drop it: what was under way ends where it is."""
    op.execute(text("DROP TABLE IF EXISTS redrives"))
