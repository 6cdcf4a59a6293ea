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
    # With queue, shard and endpoint: the partition. '' if the endpoint has no limits per key.
    word("limit_key", default=""),
    count("priority", default=128),
    word("idempotency_key"),
    word("status", default=ExecutionStatus.PENDING),
    Column("output", JSONB),
    count("attempt_count", default=0),
    count("max_attempts", default=1),
    # Kept after the claim ends: with attempt_count it identifies the last holder of the row.
    word("worker_id"),
    instant("run_at", default_now=True),
    instant("scheduled_at", default_now=True),
    # No attempt starts from this instant on (`max_age_ms`; see app/features/expiry/README.md); NULL: no bound.
    instant("expires_at"),
    instant("started_at"),
    instant("completed_at"),
    count("duration_ms"),
    # True while the job is paused: the execution waits even when due.
    flag("on_hold", default=False),
    # Requested while it was RUNNING: no attempt follows the current one.
    instant("cancel_requested_at"),
    # Requested while it was RUNNING: the worker aborts the current attempt.
    instant("abort_requested_at"),
    # Catalog revision of the first claim: all attempts use the configs of that revision.
    count("config_revision"),
    # Subscribed completion events, fixed at insertion (app.queue.ending.subscriptions); NULL: failures only.
    count("followed"),
    # Trace context of the request that started the execution manually; NULL: use the context of the job.
    word("trace_context"),
    # Retention of the result after the end (NULL: as long as the row), and the instant of its deletion.
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
# Lists, newest first: all executions, by endpoint, by job. Each index leads with the status, so that rare statuses are
# found at once. RUNNING executions are in none of these indexes: idx_executions_running_lanes finds them, and
# idx_executions_open finds the unfinished executions of a job. So a claim writes no entry here, and an end writes one
# entry in each of the last three.
# The conditions of the claim and of the promoter do not imply these predicates. Otherwise, with statistics from a time
# when almost nothing waited, the planner could read a whole index for a few rows.
_WAITS = text("completed_at IS NULL AND status IN ('PENDING', 'QUEUED', 'RETRYING')")
_HAS_ENDED = text("completed_at IS NOT NULL")
_NEWEST = (executions.c.status, executions.c.created_at, executions.c.execution_id)
Index("idx_executions_waits", *_NEWEST, postgresql_where=_WAITS)
Index("idx_executions_waits_of_endpoint", executions.c.endpoint, *_NEWEST, postgresql_where=_WAITS)
Index("idx_executions_ended", *_NEWEST, postgresql_where=_HAS_ENDED)
Index("idx_executions_ended_of_endpoint", executions.c.endpoint, *_NEWEST, postgresql_where=_HAS_ENDED)
Index("idx_executions_ended_of_job", executions.c.job_id, *_NEWEST, postgresql_where=_HAS_ENDED)
# Unfinished executions of a job, however long its history. No other index holds all unfinished executions: if one job
# had most executions, the planner might scan that other index to its end.
Index(
    "idx_executions_open",
    executions.c.job_id,
    executions.c.execution_id,
    postgresql_where=text("completed_at IS NULL"),
)
# Retries of paused jobs: searched often, and few executions are RETRYING.
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
# Claimable executions by partition and due time. The predicate equals that of idx_executions_pickup, in a form from
# which PostgreSQL cannot infer the predicates of other indexes. So, whatever the statistics, the planner never reads
# a partition through another index, which would read the waiting executions of all endpoints.
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
# Empty unless retry policies have a `max_age_ms`.
Index(
    "idx_executions_expiry",
    executions.c.shard,
    executions.c.expires_at,
    executions.c.execution_id,
    postgresql_where=text("expires_at IS NOT NULL AND status IN ('QUEUED', 'RETRYING')"),
)
# Empty unless endpoints have a retention of their own. Such endpoints are few; each is queried separately.
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
    # Status of the execution after the attempt; NULL for a success.
    word("led_to"),
    instant("created_at", default_now=True),
    PrimaryKeyConstraint("attempt_id", name="pk_attempts"),
    ForeignKeyConstraint(["execution_id"], ["executions.execution_id"], name="fk_attempts_execution"),
    UniqueConstraint("execution_id", "attempt_number", name="uq_attempts_exec_number"),
    one_of("status", "chk_attempt_status", AttemptStatus),
)

# Events are read in the order of the transactions that write them. The id is not in the index: events of a batch have
# one instant and share an index entry. Readers sort each batch by id.
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
