"""Completion of executions: the outbox of completion events, dead letters, and bulk jobs."""

from sqlalchemy import CheckConstraint, Column, Index, PrimaryKeyConstraint, Table, text
from sqlalchemy.dialects.postgresql import JSONB

from schema.states import BulkAction, BulkJobStatus, ExecutionStatus, Resolution
from schema.tables.columns import count, flag, instant, metadata, one_of, region, word

# Outbox of completion events. The statement that ends an attempt or an execution writes the row; the transaction of the
# last handler deletes the row. The table is nearly empty at all times. No foreign keys, so that no lock waits for it.
execution_ends = Table(
    "execution_ends",
    metadata,
    # Id of the attempt, or of the execution event if no attempt ended.
    word("end_id", required=True),
    region(),
    count("shard", required=True),
    word("execution_id", required=True),
    word("endpoint", required=True),
    # Status after the event; RETRYING: an attempt failed and another attempt follows.
    word("status", required=True),
    count("attempt", required=True),
    count("followed", default=0),
    flag("is_rejected", default=False),
    # Reason for an end without an attempt; NULL if an attempt ended.
    word("reason"),
    instant("ended_at", required=True),
    # An event whose handler failed is deferred; other events continue.
    instant("due_at", default_now=True),
    count("tries", default=0),
    # Names of the handlers that have not run yet; NULL: all.
    Column("effects_left", JSONB),
    PrimaryKeyConstraint("end_id", name="pk_execution_ends"),
    one_of("status", "chk_execution_ends_status", ExecutionStatus),
)
Index(
    "idx_execution_ends_due",
    execution_ends.c.shard,
    execution_ends.c.due_at,
    execution_ends.c.end_id,
)

# Failed executions, until they are resolved. A row can be read without its execution, job and endpoint.
dead_letters = Table(
    "dead_letters",
    metadata,
    # Id of the completion event, so that each failure has one dead letter.
    word("letter_id", required=True),
    region(),
    word("execution_id", required=True),
    word("job_id", required=True),
    word("endpoint", required=True),
    count("endpoint_version", required=True),
    Column("labels", JSONB),
    word("error_type", required=True),
    word("message"),
    count("attempt_count", required=True),
    instant("failed_at", required=True),
    word("resolution"),
    instant("resolved_at"),
    word("resolved_by"),
    word("note"),
    # Id of the execution that the redrive created or retried.
    word("redriven_as"),
    PrimaryKeyConstraint("letter_id", name="pk_dead_letters"),
    one_of("resolution", "chk_dead_letters_resolution", Resolution),
    CheckConstraint("(resolution IS NULL) = (resolved_at IS NULL)", name="chk_dead_letters_resolved"),
)
# Lists, newest first: all, by endpoint, by error type; separate indexes for open and for resolved dead letters.
_NEWEST = (dead_letters.c.failed_at, dead_letters.c.letter_id)
for _name, _condition in (("open", "resolved_at IS NULL"), ("resolved", "resolved_at IS NOT NULL")):
    Index(f"idx_dead_letters_{_name}", *_NEWEST, postgresql_where=text(_condition))
    for _column in (dead_letters.c.endpoint, dead_letters.c.error_type):
        Index(f"idx_dead_letters_{_name}_of_{_column.name}", _column, *_NEWEST, postgresql_where=text(_condition))
Index("idx_dead_letters_execution", dead_letters.c.execution_id, dead_letters.c.letter_id)

# Bulk jobs over the dead letters that match a filter, oldest first.
redrives = Table(
    "redrives",
    metadata,
    word("redrive_id", required=True),
    word("status", required=True),
    Column("wanted", JSONB, nullable=False),
    word("to_endpoint"),
    # Dead letters per second.
    count("rate", required=True),
    word("actor"),
    count("redriven", default=0),
    count("refused", default=0),
    word("last_refusal"),
    # Cursor: the last dead letter that was processed.
    instant("reached_at"),
    word("reached_id", default=""),
    # The scheduler that runs the bulk job: only one, so that the rate is not exceeded.
    word("holder"),
    instant("held_until"),
    instant("created_at", default_now=True),
    instant("ended_at"),
    PrimaryKeyConstraint("redrive_id", name="pk_redrives"),
    one_of("status", "chk_redrives_status", BulkJobStatus),
    CheckConstraint("(status IN ('STOPPED', 'DONE')) = (ended_at IS NOT NULL)", name="chk_redrives_ended"),
)
Index("idx_redrives_created", redrives.c.created_at, redrives.c.redrive_id)
Index("idx_redrives_running", redrives.c.redrive_id, postgresql_where=text("status = 'RUNNING'"))

# Bulk jobs over the executions that match a filter, by creation time, or over dead letters, by failure time.
bulk_operations = Table(
    "bulk_operations",
    metadata,
    word("operation_id", required=True),
    word("action", required=True),
    word("status", required=True),
    Column("wanted", JSONB, nullable=False),
    # Parameters of the action: see app.features.bulk_jobs.store.
    Column("parameters", JSONB, nullable=False),
    # Rows per second.
    count("rate", required=True),
    word("actor"),
    count("changed", default=0),
    count("refused", default=0),
    word("last_refusal"),
    # Cursor: the last row that was processed.
    instant("reached_at"),
    word("reached_id", default=""),
    # As for redrives.
    word("holder"),
    instant("held_until"),
    instant("created_at", default_now=True),
    instant("ended_at"),
    PrimaryKeyConstraint("operation_id", name="pk_bulk_operations"),
    one_of("action", "chk_bulk_operations_action", BulkAction),
    one_of("status", "chk_bulk_operations_status", BulkJobStatus),
    CheckConstraint("(status IN ('STOPPED', 'DONE')) = (ended_at IS NOT NULL)", name="chk_bulk_operations_ended"),
)
Index("idx_bulk_operations_created", bulk_operations.c.created_at, bulk_operations.c.operation_id)
Index(
    "idx_bulk_operations_running",
    bulk_operations.c.operation_id,
    postgresql_where=text("status = 'RUNNING'"),
)
