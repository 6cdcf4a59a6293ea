"""What happened to executions: attempts, log lines, and changes of state that leave no attempt behind."""

from sqlalchemy import Column, ForeignKeyConstraint, Index, PrimaryKeyConstraint, Table, UniqueConstraint
from sqlalchemy.dialects.postgresql import JSONB

from schema.states import AttemptStatus, ExecutionStatus, LogLevel
from schema.tables.columns import count, instant, metadata, one_of, region, word

attempts = Table(
    "attempts",
    metadata,
    word("attempt_id", required=True),
    region(),
    word("execution_id", required=True),
    count("attempt_number", required=True),
    word("status", required=True),
    word("worker_id"),
    instant("started_at", required=True),
    instant("completed_at"),
    count("duration_ms"),
    Column("output", JSONB),
    Column("error", JSONB),
    instant("created_at", default_now=True),
    PrimaryKeyConstraint("attempt_id", name="pk_attempts"),
    ForeignKeyConstraint(["execution_id"], ["executions.execution_id"], name="fk_attempts_execution"),
    UniqueConstraint("execution_id", "attempt_number", name="uq_attempts_exec_number"),
    one_of("status", "chk_attempts_status", AttemptStatus),
)

execution_logs = Table(
    "execution_logs",
    metadata,
    word("log_id", required=True),
    region(),
    word("execution_id", required=True),
    count("attempt_number", required=True),
    word("level", required=True),
    word("message", required=True),
    instant("logged_at", default_now=True),
    PrimaryKeyConstraint("log_id", name="pk_execution_logs"),
    ForeignKeyConstraint(["execution_id"], ["executions.execution_id"], name="fk_logs_execution"),
    one_of("level", "chk_logs_level", LogLevel),
)
Index(
    "idx_logs_by_execution",
    execution_logs.c.execution_id,
    execution_logs.c.logged_at,
    execution_logs.c.log_id,
)

# Changes of state that leave no attempt behind: cancelled, retried by hand, held by a pause, handed back.
execution_events = Table(
    "execution_events",
    metadata,
    word("event_id", required=True),
    region(),
    word("execution_id", required=True),
    word("from_status", required=True),
    word("to_status", required=True),
    count("attempt_number", required=True),
    word("actor"),
    word("reason", required=True),
    instant("occurred_at", default_now=True),
    PrimaryKeyConstraint("event_id", name="pk_execution_events"),
    ForeignKeyConstraint(["execution_id"], ["executions.execution_id"], name="fk_execution_events_execution"),
    one_of("from_status", "chk_execution_events_from", ExecutionStatus),
    one_of("to_status", "chk_execution_events_to", ExecutionStatus),
)
Index(
    "idx_execution_events_execution",
    execution_events.c.execution_id,
    execution_events.c.occurred_at,
    execution_events.c.event_id,
)
