"""Grants of te_enqueue: the endpoints for which a role of the database creates jobs."""

from alembic import op
from sqlalchemy import text

revision = "0121"
down_revision = "0120"


def upgrade() -> None:
    op.execute(
        text(
            """
            CREATE TABLE IF NOT EXISTS te_grants (
              role_name TEXT NOT NULL,
              pattern TEXT NOT NULL,
              CONSTRAINT pk_te_grants PRIMARY KEY (role_name, pattern),
              CONSTRAINT chk_te_grants_pattern CHECK (pattern ~ '^[a-z0-9*?_-]{1,128}$')
            )
            """
        )
    )
