"""What follows the ends of executions: the outbox of those that somebody follows, and dead letters."""

from sqlalchemy import CheckConstraint, Column, Index, PrimaryKeyConstraint, Table, text
from sqlalchemy.dialects.postgresql import JSONB

from schema.states import BulkAction, ExecutionStatus, Resolution, WalkStatus
from schema.tables.columns import count, flag, instant, metadata, one_of, region, word

# Written in the statement that ends an attempt or an execution, and deleted in the transaction of what follows: nearly
# empty at all times. It refers to no other table, so that nothing waits for it.
execution_ends = Table(
    "execution_ends",
    metadata,
    # The id of the attempt, or of the event where none ended.
    word("end_id", required=True),
    region(),
    count("shard", required=True),
    word("execution_id", required=True),
    word("endpoint", required=True),
    # The state that it came to; RETRYING says that an attempt has failed and another one follows.
    word("status", required=True),
    count("attempt", required=True),
    count("followed", default=0),
    flag("is_rejected", default=False),
    # Why it ended without an attempt; NULL where an attempt ended.
    word("reason"),
    instant("ended_at", required=True),
    # What failed is put off, alone.
    instant("due_at", default_now=True),
    count("tries", default=0),
    # The effects that are left, by name; NULL: all.
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

# An execution that has failed, until somebody has seen to it. It can be read without its execution, its job and its
# endpoint.
dead_letters = Table(
    "dead_letters",
    metadata,
    # That of the end, so that each failure has one.
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
    # The execution that it goes on as.
    word("redriven_as"),
    PrimaryKeyConstraint("letter_id", name="pk_dead_letters"),
    one_of("resolution", "chk_dead_letters_resolution", Resolution),
    CheckConstraint("(resolution IS NULL) = (resolved_at IS NULL)", name="chk_dead_letters_resolved"),
)
# Lists, newest first, of all, of an endpoint's and of an error's, open ones and resolved ones each for themselves.
_NEWEST = (dead_letters.c.failed_at, dead_letters.c.letter_id)
for _name, _condition in (("open", "resolved_at IS NULL"), ("resolved", "resolved_at IS NOT NULL")):
    Index(f"idx_dead_letters_{_name}", *_NEWEST, postgresql_where=text(_condition))
    for _column in (dead_letters.c.endpoint, dead_letters.c.error_type):
        Index(f"idx_dead_letters_{_name}_of_{_column.name}", _column, *_NEWEST, postgresql_where=text(_condition))
Index("idx_dead_letters_execution", dead_letters.c.execution_id, dead_letters.c.letter_id)

# A walk over the dead letters of a filter, the oldest first.
redrives = Table(
    "redrives",
    metadata,
    word("redrive_id", required=True),
    word("status", required=True),
    Column("wanted", JSONB, nullable=False),
    word("to_endpoint"),
    # Letters in a second.
    count("rate", required=True),
    word("actor"),
    count("redriven", default=0),
    count("refused", default=0),
    word("last_refusal"),
    # The last letter that was seen to.
    instant("reached_at"),
    word("reached_id", default=""),
    # The scheduler that walks, so that several do not together exceed the rate.
    word("holder"),
    instant("held_until"),
    instant("created_at", default_now=True),
    instant("ended_at"),
    PrimaryKeyConstraint("redrive_id", name="pk_redrives"),
    one_of("status", "chk_redrives_status", WalkStatus),
    CheckConstraint("(status IN ('STOPPED', 'DONE')) = (ended_at IS NOT NULL)", name="chk_redrives_ended"),
)
Index("idx_redrives_created", redrives.c.created_at, redrives.c.redrive_id)
Index("idx_redrives_running", redrives.c.redrive_id, postgresql_where=text("status = 'RUNNING'"))

# A walk over the executions of a filter, in the order of their creation, or over dead letters in that of their failure.
bulk_operations = Table(
    "bulk_operations",
    metadata,
    word("operation_id", required=True),
    word("action", required=True),
    word("status", required=True),
    Column("wanted", JSONB, nullable=False),
    # What the action is told beside: see app.features.bulk_jobs.store.
    Column("parameters", JSONB, nullable=False),
    # In a second.
    count("rate", required=True),
    word("actor"),
    count("changed", default=0),
    count("refused", default=0),
    word("last_refusal"),
    # The last one that was seen to.
    instant("reached_at"),
    word("reached_id", default=""),
    # As for redrives.
    word("holder"),
    instant("held_until"),
    instant("created_at", default_now=True),
    instant("ended_at"),
    PrimaryKeyConstraint("operation_id", name="pk_bulk_operations"),
    one_of("action", "chk_bulk_operations_action", BulkAction),
    one_of("status", "chk_bulk_operations_status", WalkStatus),
    CheckConstraint("(status IN ('STOPPED', 'DONE')) = (ended_at IS NOT NULL)", name="chk_bulk_operations_ended"),
)
Index("idx_bulk_operations_created", bulk_operations.c.created_at, bulk_operations.c.operation_id)
Index(
    "idx_bulk_operations_running",
    bulk_operations.c.operation_id,
    postgresql_where=text("status = 'RUNNING'"),
)
