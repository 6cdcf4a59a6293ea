"""Rollups of deliveries, and samples of queues."""

from alembic import op
from sqlalchemy import text

from schema import online

revision = "0118"
down_revision = "0117"

_COUNTS = ("succeeded", "retried", "failed", "cancelled", "unsent", "uncertain", "lost")
_CLASSES = (*(f"late_{number}" for number in range(16)), *(f"took_{number}" for number in range(15)))
TABLES = {
    "delivery_rollups": f"""
      endpoint TEXT NOT NULL,
      step_s BIGINT NOT NULL,
      slot TIMESTAMPTZ NOT NULL,
      attempts BIGINT NOT NULL,
      {", ".join(f"{name} BIGINT" for name in (*_COUNTS, *_CLASSES))},
      CONSTRAINT pk_delivery_rollups PRIMARY KEY (endpoint, step_s, slot)
    """,
    "failure_rollups": """
      endpoint TEXT NOT NULL,
      step_s BIGINT NOT NULL,
      slot TIMESTAMPTZ NOT NULL,
      error_type TEXT NOT NULL,
      failed BIGINT,
      retried BIGINT,
      uncertain BIGINT,
      CONSTRAINT pk_failure_rollups PRIMARY KEY (endpoint, step_s, slot, error_type)
    """,
    "queue_samples": """
      queue TEXT NOT NULL,
      step_s BIGINT NOT NULL,
      slot TIMESTAMPTZ NOT NULL,
      due BIGINT NOT NULL,
      oldest_ms BIGINT,
      workers BIGINT NOT NULL,
      in_flight BIGINT,
      slots BIGINT,
      CONSTRAINT pk_queue_samples PRIMARY KEY (queue, step_s, slot)
    """,
    "rollup_marks": """
      step_s BIGINT NOT NULL,
      reached TIMESTAMPTZ NOT NULL,
      CONSTRAINT pk_rollup_marks PRIMARY KEY (step_s)
    """,
}
INDEXES = {
    "idx_delivery_rollups_slot": ("delivery_rollups", ["step_s", "slot", "endpoint"]),
    "idx_failure_rollups_slot": ("failure_rollups", ["step_s", "slot", "endpoint", "error_type"]),
    "idx_queue_samples_slot": ("queue_samples", ["step_s", "slot", "queue"]),
}


def upgrade() -> None:
    for name, columns in TABLES.items():
        op.execute(text(f"CREATE TABLE IF NOT EXISTS {name} ({columns})"))
    for name, (table, indexed) in INDEXES.items():
        online.create_index(name, table, indexed)
    if online.is_cockroach():
        for name in ("delivery_rollups", "failure_rollups", "queue_samples"):
            online.execute_if_permitted(f"ALTER TABLE {name} CONFIGURE ZONE USING gc.ttlseconds = 600")
