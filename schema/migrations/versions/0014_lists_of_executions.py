"""Indexes for lists of executions: of each status for itself, and none of them written by a claim.

While the release before still runs, its lists of executions, and what it reads of a job with very many of them, are slow.
On PostgreSQL pages of executions keep room, so that the new row of a claim finds place beside the old one.
"""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0014"
down_revision = "0013"

WAITS = "completed_at IS NULL AND status IN ('PENDING', 'QUEUED', 'RETRYING')"
HAS_ENDED = "completed_at IS NOT NULL"
NEWEST = ["created_at", "execution_id"]


def upgrade() -> None:
    """Build the new indexes, then drop those that they replace; each step may be repeated."""
    for name, condition in (("waits", WAITS), ("ended", HAS_ENDED)):
        # Its ends are few and grow with the time.
        _create(name, ["status", *NEWEST], condition, leads_with_time=True)
        _create(f"{name}_of_endpoint", ["endpoint", "status", *NEWEST], condition)
    _create("ended_of_job", ["job_id", "status", *NEWEST], HAS_ENDED)
    for name in ("created", "unsuccessful", "endpoint", "job"):
        online.drop_index(f"idx_executions_{name}")
    if not online.is_cockroach():
        op.execute(text("ALTER TABLE executions SET (fillfactor = 80)"))


def downgrade() -> None:
    """Build what the previous release reads, then drop the others."""
    _create("created", NEWEST, leads_with_time=True)
    _create("unsuccessful", NEWEST, "status IN ('FAILED', 'CANCELLED')", leads_with_time=True)
    _create("endpoint", ["endpoint", *NEWEST])
    _create("job", ["job_id", *NEWEST])
    for name in ("waits", "waits_of_endpoint", "ended", "ended_of_endpoint", "ended_of_job"):
        online.drop_index(f"idx_executions_{name}")
    if not online.is_cockroach():
        op.execute(text("ALTER TABLE executions RESET (fillfactor)"))


def _create(name: str, columns: list[str], condition: str | None = None, *, leads_with_time: bool = False) -> None:
    online.create_index(
        f"idx_executions_{name}", "executions", columns, where=condition, leads_with_time=leads_with_time
    )
