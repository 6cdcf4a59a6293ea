"""Flow: lanes of executions, queues and priorities, limits, breakers and routes.

All columns have constant defaults, and what the release before reads stays, but for one index: while that release still
runs, a worker's own claims and the reclaim are found by an index that begins with something else.
"""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0017"
down_revision = "0016"

# Spelt so that no other index holds all of it by PostgreSQL's rules: else statistics from before a burst make the
# planner read what waits of all endpoints for the few rows of one.
CLAIMABLE = "status NOT IN ('PENDING', 'RUNNING', 'SUCCESS', 'FAILED', 'CANCELLED')"

COLUMNS = (
    ("executions", "limit_key", "TEXT DEFAULT '' NOT NULL"),
    ("executions", "priority", "BIGINT DEFAULT 128 NOT NULL"),
    ("executions", "abort_requested_at", "TIMESTAMPTZ"),
    ("jobs", "queue", "TEXT"),
    ("jobs", "priority", "BIGINT"),
    ("jobs", "limit_key", "TEXT DEFAULT '' NOT NULL"),
    ("endpoints", "queue", "TEXT"),
    ("endpoints", "routed_queue", "TEXT"),
    ("endpoints", "priority", "BIGINT DEFAULT 128 NOT NULL"),
    ("endpoints", "limits", "JSONB"),
    ("endpoints", "breaker", "JSONB"),
    ("endpoints", "paused_at", "TIMESTAMPTZ"),
    ("endpoints", "flow_revision", "BIGINT DEFAULT 0 NOT NULL"),
)
TABLES = {
    "gates": (
        "gate_id TEXT NOT NULL, revision BIGINT DEFAULT 0 NOT NULL, tat_ns BIGINT DEFAULT 0 NOT NULL, "
        "used_at TIMESTAMPTZ DEFAULT now() NOT NULL, CONSTRAINT pk_gates PRIMARY KEY (gate_id)"
    ),
    "gate_windows": (
        "gate_id TEXT NOT NULL, slot BIGINT NOT NULL, bucket BIGINT NOT NULL, started BIGINT NOT NULL, "
        "CONSTRAINT pk_gate_windows PRIMARY KEY (gate_id, slot)"
    ),
    "breakers": (
        "target TEXT NOT NULL, state TEXT DEFAULT 'closed' NOT NULL, revision BIGINT DEFAULT 0 NOT NULL, reason TEXT, "
        "failed BIGINT, results BIGINT, changed_at TIMESTAMPTZ DEFAULT now() NOT NULL, open_until TIMESTAMPTZ, "
        "probe_worker TEXT, probe_until TIMESTAMPTZ, watched_until TIMESTAMPTZ NOT NULL, "
        "CONSTRAINT pk_breakers PRIMARY KEY (target), "
        "CONSTRAINT chk_breakers_state CHECK (state IN ('closed', 'open', 'half_open'))"
    ),
    "breaker_counts": (
        "target TEXT NOT NULL, slot BIGINT NOT NULL, worker_id TEXT NOT NULL, ok BIGINT NOT NULL, "
        "failed BIGINT NOT NULL, CONSTRAINT pk_breaker_counts PRIMARY KEY (target, slot, worker_id)"
    ),
    "breaker_events": (
        "event_id TEXT NOT NULL, target TEXT NOT NULL, from_state TEXT NOT NULL, to_state TEXT NOT NULL, "
        "reason TEXT NOT NULL, actor TEXT, open_until TIMESTAMPTZ, occurred_at TIMESTAMPTZ DEFAULT now() NOT NULL, "
        "CONSTRAINT pk_breaker_events PRIMARY KEY (event_id), "
        "CONSTRAINT chk_breaker_events_from CHECK (from_state IN ('closed', 'open', 'half_open')), "
        "CONSTRAINT chk_breaker_events_to CHECK (to_state IN ('closed', 'open', 'half_open'))"
    ),
    "routes": (
        "position BIGINT NOT NULL, pattern TEXT NOT NULL, queue TEXT NOT NULL, source TEXT NOT NULL, "
        "CONSTRAINT pk_routes PRIMARY KEY (position), "
        "CONSTRAINT chk_routes_source CHECK (source IN ('environment', 'api')), "
        "CONSTRAINT chk_routes_position CHECK (position >= 0)"
    ),
}
# Their updates change no index; with room on the page the new row finds place beside the old one.
OFTEN_UPDATED = ("gates", "gate_windows", "breakers")


def upgrade() -> None:
    """Add columns and tables, build the new indexes, then drop the one they replace; each step may be repeated."""
    for table, name, definition in COLUMNS:
        online.add_column(table, name, definition)
    for table in ("executions", "jobs", "endpoints"):
        online.add_check(table, f"chk_{table}_priority", "priority >= 0 AND priority <= 255")
    for table, definition in TABLES.items():
        op.execute(text(f"CREATE TABLE IF NOT EXISTS {table} ({definition})"))
    if not online.is_cockroach():
        for table in OFTEN_UPDATED:
            online.set_storage(table, "SET (fillfactor = 50)")
    _create_indexes()
    op.execute(text("INSERT INTO catalog_revision (id, revision) VALUES ('flow', 0) ON CONFLICT (id) DO NOTHING"))
    op.execute(text("INSERT INTO catalog_revision (id, revision) VALUES ('routes', 0) ON CONFLICT (id) DO NOTHING"))
    online.drop_index("idx_executions_running")


def downgrade() -> None:
    """Build what the previous release reads, then drop the rest: limits, breakers and routes are lost.

    That release serves the queues of the transports only: what waits in others has to be given back to them before, as
    docs/operations.md says, or nobody claims it.
    """
    online.create_index(
        "idx_executions_running", "executions", ["worker_id", "execution_id"], where="status = 'RUNNING'"
    )
    for name in ("executions_lanes", "executions_running_lanes", "executions_aborts", "endpoints_flow"):
        online.drop_index(f"idx_{name}")
    op.execute(text("DELETE FROM catalog_revision WHERE id IN ('flow', 'routes')"))
    for table in TABLES:
        op.execute(text(f"DROP TABLE IF EXISTS {table}"))
    for table, name, _ in COLUMNS:
        op.execute(text(f"ALTER TABLE {table} DROP COLUMN IF EXISTS {name}"))


def _create_indexes() -> None:
    lane = ["queue", "shard", "endpoint", "limit_key", "priority", "run_at", "execution_id"]
    online.create_index("idx_executions_lanes", "executions", lane, where=CLAIMABLE)
    running = ["endpoint", "limit_key", "worker_id", "execution_id"]
    online.create_index("idx_executions_running_lanes", "executions", running, where="status = 'RUNNING'")
    online.create_index(
        "idx_executions_aborts",
        "executions",
        ["worker_id", "execution_id"],
        where="status = 'RUNNING' AND abort_requested_at IS NOT NULL",
    )
    online.create_index(
        "idx_endpoints_flow",
        "endpoints",
        ["name"],
        where="limits IS NOT NULL OR breaker IS NOT NULL OR paused_at IS NOT NULL",
    )
    online.create_index("idx_breaker_events_target", "breaker_events", ["target", "occurred_at", "event_id"])
    online.create_index("idx_breaker_events_time", "breaker_events", ["occurred_at", "event_id"], leads_with_time=True)
