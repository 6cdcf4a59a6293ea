"""Sessions of the console."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0113"
down_revision = "0112"


def upgrade() -> None:
    op.execute(
        text(
            """
            CREATE TABLE IF NOT EXISTS console_sessions (
              session_hash TEXT NOT NULL,
              key_id TEXT NOT NULL,
              is_link BOOLEAN DEFAULT false NOT NULL,
              created_at TIMESTAMPTZ DEFAULT now() NOT NULL,
              last_seen_at TIMESTAMPTZ DEFAULT now() NOT NULL,
              expires_at TIMESTAMPTZ NOT NULL,
              CONSTRAINT pk_console_sessions PRIMARY KEY (session_hash)
            )
            """
        )
    )
    online.create_index(
        "idx_console_sessions_time", "console_sessions", ["expires_at", "session_hash"], leads_with_time=True
    )
