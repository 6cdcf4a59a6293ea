"""Endpoints of breakers: which of them lead to a target, for those who ask why an execution waits."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Make a table that is empty at first."""
    op.execute(
        text(
            "CREATE TABLE IF NOT EXISTS breaker_endpoints (target TEXT NOT NULL, endpoint TEXT NOT NULL, "
            "CONSTRAINT pk_breaker_endpoints PRIMARY KEY (target, endpoint))"
        )
    )
    online.create_index("idx_breaker_endpoints_endpoint", "breaker_endpoints", ["endpoint", "target"])


def downgrade() -> None:
    """Forget them."""
    op.execute(text("DROP TABLE IF EXISTS breaker_endpoints"))
