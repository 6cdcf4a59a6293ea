"""Events: ends of attempts and changes of executions in the order of time, and what each attempt led to."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Add column and indexes; of attempts that others write meanwhile it is not known what they led to."""
    online.add_column("attempts", "led_to", "TEXT")
    online.create_index("idx_attempts_time", "attempts", ["created_at", "attempt_id"], leads_with_time=True)
    online.create_index(
        "idx_execution_events_time", "execution_events", ["occurred_at", "event_id"], leads_with_time=True
    )


def downgrade() -> None:
    """Drop them."""
    online.drop_index("idx_execution_events_time")
    online.drop_index("idx_attempts_time")
    op.execute(text("ALTER TABLE attempts DROP COLUMN IF EXISTS led_to"))
