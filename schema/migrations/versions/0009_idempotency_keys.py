"""Idempotency keys of requests, and the answers to them."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Create the table; each step may be repeated."""
    op.execute(
        text(
            "CREATE TABLE IF NOT EXISTS idempotency_keys (key_id TEXT NOT NULL, idempotency_key TEXT NOT NULL, "
            "fingerprint TEXT NOT NULL, request_id TEXT NOT NULL, status BIGINT, etag TEXT, body TEXT, "
            "created_at TIMESTAMPTZ DEFAULT now() NOT NULL, "
            "CONSTRAINT pk_idempotency_keys PRIMARY KEY (key_id, idempotency_key))"
        )
    )
    columns = ["created_at", "key_id", "idempotency_key"]
    if online.is_cockroach():
        # It leads with a time: a hash in front spreads the inserts.
        index = f"idempotency_keys ({', '.join(columns)}) USING HASH"
        op.execute(text(f"CREATE INDEX IF NOT EXISTS idx_idempotency_keys_time ON {index}"))
    else:
        online.create_index("idx_idempotency_keys_time", "idempotency_keys", columns)


def downgrade() -> None:
    """Drop it; a request that is sent again takes effect again."""
    op.execute(text("DROP TABLE IF EXISTS idempotency_keys"))
