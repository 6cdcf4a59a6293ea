"""Processes of users that run actors."""

from alembic import op
from sqlalchemy import text

revision = "0120"
down_revision = "0119"


def upgrade() -> None:
    op.execute(
        text(
            """
            CREATE TABLE IF NOT EXISTS actor_processes (
              worker_id TEXT NOT NULL,
              session_id TEXT NOT NULL,
              host TEXT NOT NULL,
              pid BIGINT,
              threads BIGINT NOT NULL,
              endpoints JSONB NOT NULL,
              connected_at TIMESTAMPTZ DEFAULT now() NOT NULL,
              left_at TIMESTAMPTZ,
              CONSTRAINT pk_actor_processes PRIMARY KEY (worker_id, session_id)
            )
            """
        )
    )
