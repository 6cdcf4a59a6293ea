"""Tables of workflows."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0103"
down_revision = "0102"

TABLES = (
    """
    CREATE TABLE IF NOT EXISTS workflows (
      workflow_id TEXT NOT NULL,
      crdb_region TEXT DEFAULT 'default' NOT NULL,
      name TEXT NOT NULL,
      labels JSONB,
      input JSONB NOT NULL,
      idempotency_key TEXT,
      status TEXT DEFAULT 'RUNNING' NOT NULL,
      reason TEXT,
      on_failure TEXT DEFAULT 'stop' NOT NULL,
      max_parallel BIGINT,
      deadline_at TIMESTAMPTZ,
      cancelling TEXT,
      nodes BIGINT NOT NULL,
      open_nodes BIGINT NOT NULL,
      running BIGINT DEFAULT 0 NOT NULL,
      succeeded BIGINT DEFAULT 0 NOT NULL,
      failed BIGINT DEFAULT 0 NOT NULL,
      cancelled BIGINT DEFAULT 0 NOT NULL,
      skipped BIGINT DEFAULT 0 NOT NULL,
      revision BIGINT DEFAULT 0 NOT NULL,
      actor TEXT,
      trace_context TEXT,
      created_at TIMESTAMPTZ DEFAULT now() NOT NULL,
      ended_at TIMESTAMPTZ,
      CONSTRAINT pk_workflows PRIMARY KEY (workflow_id),
      CONSTRAINT chk_workflows_status
        CHECK (status IN ('RUNNING', 'PAUSED', 'STOPPING', 'SUCCEEDED', 'FAILED', 'CANCELLED')),
      CONSTRAINT chk_workflows_reason CHECK (reason IN ('NODE_FAILED', 'CANCELLED', 'DEADLINE')),
      CONSTRAINT chk_workflows_on_failure CHECK (on_failure IN ('stop', 'continue')),
      CONSTRAINT chk_workflows_ended CHECK ((status IN ('SUCCEEDED', 'FAILED', 'CANCELLED')) = (ended_at IS NOT NULL)),
      CONSTRAINT chk_workflows_stopping CHECK (status <> 'STOPPING' OR reason IS NOT NULL),
      CONSTRAINT chk_workflows_open CHECK (open_nodes >= 0 AND running >= 0)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS workflow_nodes (
      workflow_id TEXT NOT NULL,
      node BIGINT NOT NULL,
      item BIGINT NOT NULL,
      crdb_region TEXT DEFAULT 'default' NOT NULL,
      name TEXT,
      endpoint TEXT,
      definition JSONB,
      state TEXT DEFAULT 'WAITING' NOT NULL,
      reason TEXT,
      message TEXT,
      run BIGINT DEFAULT 1 NOT NULL,
      job_id TEXT,
      execution_id TEXT,
      open_parents BIGINT DEFAULT 0 NOT NULL,
      failed_parents BIGINT DEFAULT 0 NOT NULL,
      reported_to BIGINT,
      items BIGINT,
      items_made BIGINT,
      items_open BIGINT,
      items_failed BIGINT,
      ready_at TIMESTAMPTZ,
      started_at TIMESTAMPTZ,
      ended_at TIMESTAMPTZ,
      CONSTRAINT pk_workflow_nodes PRIMARY KEY (workflow_id, node, item),
      CONSTRAINT chk_workflow_nodes_state
        CHECK (state IN ('WAITING', 'READY', 'EXPANDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELLED', 'SKIPPED')),
      CONSTRAINT chk_workflow_nodes_parents CHECK (open_parents >= 0 AND failed_parents >= 0),
      CONSTRAINT chk_workflow_nodes_items CHECK (items_open >= 0 AND items_made <= items),
      CONSTRAINT chk_workflow_nodes_ended
        CHECK ((state IN ('SUCCEEDED', 'FAILED', 'CANCELLED', 'SKIPPED')) = (ended_at IS NOT NULL))
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS workflow_edges (
      workflow_id TEXT NOT NULL,
      parent BIGINT NOT NULL,
      child BIGINT NOT NULL,
      CONSTRAINT pk_workflow_edges PRIMARY KEY (workflow_id, parent, child)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS workflow_events (
      event_id TEXT NOT NULL,
      workflow_id TEXT NOT NULL,
      from_status TEXT,
      to_status TEXT NOT NULL,
      actor TEXT,
      reason TEXT,
      occurred_at TIMESTAMPTZ DEFAULT now() NOT NULL,
      CONSTRAINT pk_workflow_events PRIMARY KEY (event_id),
      CONSTRAINT chk_workflow_events_from
        CHECK (from_status IN ('RUNNING', 'PAUSED', 'STOPPING', 'SUCCEEDED', 'FAILED', 'CANCELLED')),
      CONSTRAINT chk_workflow_events_to
        CHECK (to_status IN ('RUNNING', 'PAUSED', 'STOPPING', 'SUCCEEDED', 'FAILED', 'CANCELLED'))
    )
    """,
)


def upgrade() -> None:
    for table in TABLES:
        op.execute(text(table))
    online.create_index("idx_workflows_cancelling", "workflows", ["workflow_id"], where="cancelling IS NOT NULL")
    online.create_index("idx_workflows_created", "workflows", ["created_at", "workflow_id"], leads_with_time=True)
    online.create_index(
        "idx_workflows_deadline",
        "workflows",
        ["deadline_at", "workflow_id"],
        where="deadline_at IS NOT NULL AND ended_at IS NULL AND reason IS NULL",
        leads_with_time=True,
    )
    online.create_index(
        "idx_workflows_ended",
        "workflows",
        ["ended_at", "workflow_id"],
        where="ended_at IS NOT NULL",
        leads_with_time=True,
    )
    online.create_index("idx_workflows_labels", "workflows", ["labels"], using="gin", where="labels IS NOT NULL")
    online.create_index("idx_workflows_name", "workflows", ["name", "created_at", "workflow_id"])
    online.create_index(
        "idx_workflows_status", "workflows", ["status", "created_at", "workflow_id"], leads_with_time=True
    )
    online.create_index("uq_workflows_idempotency", "workflows", ["idempotency_key"], unique=True)
    online.create_index(
        "idx_workflow_nodes_ready",
        "workflow_nodes",
        ["workflow_id", "node", "item"],
        where="state IN ('READY', 'EXPANDING')",
    )
    online.create_index(
        "idx_workflow_nodes_reporting",
        "workflow_nodes",
        ["workflow_id", "node", "item"],
        where="reported_to IS NOT NULL",
    )
    online.create_index(
        "idx_workflow_nodes_running", "workflow_nodes", ["workflow_id", "node", "item"], where="state = 'RUNNING'"
    )
    online.create_index("uq_workflow_nodes_execution", "workflow_nodes", ["execution_id"], unique=True)
    online.create_index(
        "uq_workflow_nodes_name", "workflow_nodes", ["workflow_id", "name"], unique=True, where="item = 0"
    )
    online.create_index("idx_workflow_edges_child", "workflow_edges", ["workflow_id", "child", "parent"])
    online.create_index("idx_workflow_events_workflow", "workflow_events", ["workflow_id", "occurred_at", "event_id"])
    if online.is_cockroach():
        for name in ("workflows", "workflow_nodes"):
            online.execute_if_permitted(f"ALTER TABLE {name} CONFIGURE ZONE USING gc.ttlseconds = 600")
    else:
        online.set_storage("workflows", "SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05)")
        online.set_storage(
            "workflow_nodes",
            "SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05)",
        )
