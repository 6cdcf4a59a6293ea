"""Executions, their attempts and log lines, and the changes of state that leave no attempt."""

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from schema.states import (
    AttemptStatus,
    ExecutionStatus,
    LogLevel,
)
from schema.tables.columns import count, flag, instant, metadata, one_of, priority_range, region, word

executions = Table(
    "executions",
    metadata,
    word("execution_id", required=True),
    region(),
    word("job_id", required=True),
    word("endpoint", required=True),
    count("endpoint_version", required=True),
    word("endpoint_type", required=True),
    word("queue", required=True),
    count("shard", required=True),
    # With queue, shard and endpoint: the lane in which it waits. '' where the endpoint has no limit per key.
    word("limit_key", default=""),
    count("priority", default=128),
    word("idempotency_key"),
    word("status", default=ExecutionStatus.PENDING),
    Column("output", JSONB),
    count("attempt_count", default=0),
    count("max_attempts", default=1),
    # Kept after the claim ends: with attempt_count it shows who held the row last.
    word("worker_id"),
    instant("run_at", default_now=True),
    instant("scheduled_at", default_now=True),
    instant("started_at"),
    instant("completed_at"),
    count("duration_ms"),
    # Waits although it may be due: its job is paused.
    flag("on_hold", default=False),
    # Requested while it was RUNNING: no attempt follows the current one.
    instant("cancel_requested_at"),
    # Requested while it was RUNNING: its worker breaks the current attempt off.
    instant("abort_requested_at"),
    # The catalogue revision of the first claim: configs are as they were then, in all attempts.
    count("config_revision"),
    # Which ends somebody follows, from its insertion on (app.queue.ending.subscriptions); NULL: failures only.
    count("followed"),
    # Of the request that asked for it by hand, where that was in a trace; else its job's counts.
    word("trace_context"),
    # How long after its end what was answered is kept, NULL: as long as the row; and when it was deleted.
    count("result_retention_ms"),
    instant("result_pruned_at"),
    instant("created_at", default_now=True),
    PrimaryKeyConstraint("execution_id", name="pk_executions"),
    ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name="fk_executions_job"),
    one_of("status", "chk_exec_status", ExecutionStatus),
    CheckConstraint("max_attempts >= 1", name="chk_executions_max_attempts"),
    CheckConstraint("attempt_count >= 0 AND attempt_count <= max_attempts", name="chk_executions_attempts"),
    CheckConstraint(
        "status <> 'RUNNING' OR (worker_id IS NOT NULL AND started_at IS NOT NULL AND attempt_count >= 1)",
        name="chk_executions_running",
    ),
    CheckConstraint(
        "(status IN ('SUCCESS', 'FAILED', 'CANCELLED')) = (completed_at IS NOT NULL)",
        name="chk_executions_completed",
    ),
    CheckConstraint("NOT on_hold OR status = 'PENDING'", name="chk_executions_on_hold"),
    priority_range("executions"),
)
Index("idx_executions_tick", executions.c.job_id, executions.c.idempotency_key, unique=True)
# Lists, newest first, of all executions, of an endpoint's and of a job's: each status for itself, so that a rare one is
# found at once. What runs is in none of them: it is found by idx_executions_running_lanes, and what is unfinished of a
# job by idx_executions_open. So the claim of an execution writes no entry here, and its end one in each of the last
# three.
# No condition of the claim's, or of the promoter's, implies theirs: by statistics from after a burst, in which next to
# nothing waits, either would read all of it for its few rows.
_WAITS = text("completed_at IS NULL AND status IN ('PENDING', 'QUEUED', 'RETRYING')")
_HAS_ENDED = text("completed_at IS NOT NULL")
_NEWEST = (executions.c.status, executions.c.created_at, executions.c.execution_id)
Index("idx_executions_waits", *_NEWEST, postgresql_where=_WAITS)
Index("idx_executions_waits_of_endpoint", executions.c.endpoint, *_NEWEST, postgresql_where=_WAITS)
Index("idx_executions_ended", *_NEWEST, postgresql_where=_HAS_ENDED)
Index("idx_executions_ended_of_endpoint", executions.c.endpoint, *_NEWEST, postgresql_where=_HAS_ENDED)
Index("idx_executions_ended_of_job", executions.c.job_id, *_NEWEST, postgresql_where=_HAS_ENDED)
# The unfinished executions of a job, however long its history. No other index holds all that is unfinished: where very
# many executions are of one job, the planner might read it in place of this one, to its end.
Index(
    "idx_executions_open",
    executions.c.job_id,
    executions.c.execution_id,
    postgresql_where=text("completed_at IS NULL"),
)
# The retries of paused jobs are looked for often, and few executions wait for another attempt.
Index(
    "idx_executions_retrying",
    executions.c.job_id,
    executions.c.execution_id,
    postgresql_where=text("status = 'RETRYING'"),
)
# The claim reads exactly this index: equality on queue and shard, then its ORDER BY.
Index(
    "idx_executions_pickup",
    executions.c.queue,
    executions.c.shard,
    executions.c.run_at,
    executions.c.execution_id,
    postgresql_where=text("status IN ('QUEUED', 'RETRYING')"),
)
# The lanes of what may be claimed, each in the order of its instants. Its condition says the same as that of
# idx_executions_pickup in words from which PostgreSQL infers nothing about others: whatever the statistics, no other
# index is taken for a lane, where it would read what waits of all endpoints.
Index(
    "idx_executions_lanes",
    executions.c.queue,
    executions.c.shard,
    executions.c.endpoint,
    executions.c.limit_key,
    executions.c.priority,
    executions.c.run_at,
    executions.c.execution_id,
    postgresql_where=text("status NOT IN ('PENDING', 'RUNNING', 'SUCCESS', 'FAILED', 'CANCELLED')"),
)
Index(
    "idx_executions_waiting",
    executions.c.shard,
    executions.c.run_at,
    executions.c.execution_id,
    postgresql_where=text("status = 'PENDING' AND NOT on_hold"),
)
Index(
    "idx_executions_running_lanes",
    executions.c.endpoint,
    executions.c.limit_key,
    executions.c.worker_id,
    executions.c.execution_id,
    postgresql_where=text("status = 'RUNNING'"),
)
Index(
    "idx_executions_aborts",
    executions.c.worker_id,
    executions.c.execution_id,
    postgresql_where=text("status = 'RUNNING' AND abort_requested_at IS NOT NULL"),
)
Index(
    "idx_executions_finished",
    executions.c.shard,
    executions.c.completed_at,
    executions.c.execution_id,
    postgresql_where=text("completed_at IS NOT NULL"),
)
# Empty unless endpoints have a retention of their own, of which there are few: each is looked for by itself.
Index(
    "idx_executions_results",
    executions.c.shard,
    executions.c.result_retention_ms,
    executions.c.completed_at,
    executions.c.execution_id,
    postgresql_where=text("result_retention_ms IS NOT NULL AND result_pruned_at IS NULL AND completed_at IS NOT NULL"),
)

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
    # The status that its execution then had; NULL for a success.
    word("led_to"),
    instant("created_at", default_now=True),
    PrimaryKeyConstraint("attempt_id", name="pk_attempts"),
    ForeignKeyConstraint(["execution_id"], ["executions.execution_id"], name="fk_attempts_execution"),
    UniqueConstraint("execution_id", "attempt_number", name="uq_attempts_exec_number"),
    one_of("status", "chk_attempt_status", AttemptStatus),
)

# Events are read in the order of the transactions that write them. Not by the id as well, so that those of a batch,
# which have one instant, share an entry: who reads them sorts them, a batch at a time.
Index("idx_attempts_created", attempts.c.created_at)

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
    one_of("level", "chk_log_level", LogLevel),
)
Index(
    "idx_logs_by_execution",
    execution_logs.c.execution_id,
    execution_logs.c.logged_at,
    execution_logs.c.log_id,
)

# Changes of state that leave no attempt: cancelled, retried manually, held by a pause, released.
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
Index("idx_execution_events_time", execution_events.c.occurred_at, execution_events.c.event_id)
Index(
    "idx_execution_events_execution",
    execution_events.c.execution_id,
    execution_events.c.occurred_at,
    execution_events.c.event_id,
)
