"""Values of rate limiters and barriers of Dramatiq."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0124"
down_revision = "0123"


def upgrade() -> None:
    op.execute(
        text(
            """
            CREATE TABLE IF NOT EXISTS limiter_values (
              key TEXT NOT NULL,
              party TEXT DEFAULT '' NOT NULL,
              value BIGINT NOT NULL,
              expires_at TIMESTAMPTZ NOT NULL,
              CONSTRAINT pk_limiter_values PRIMARY KEY (key, party)
            )
            """
        )
    )
    if not online.is_cockroach():
        online.set_storage("limiter_values", "SET (fillfactor = 50)")
