"""Executions, their attempts and log lines, and the changes of state that leave no attempt."""

from sqlalchemy import ForeignKeyConstraint, UniqueConstraint

from schema.states import AttemptStatus, ExecutionStatus, LogLevel
from schema.tables.columns import check, count, flag, index, instant, json, one_of, priority_range, region, table, word

_NEWEST = "status, created_at, execution_id"
# The conditions of the claim and of the promoter do not imply these predicates. Otherwise, with statistics from a time
# when almost nothing waited, the planner could read a whole index for a few rows.
_WAITS = "completed_at IS NULL AND status IN ('PENDING', 'QUEUED', 'RETRYING')"
_HAS_ENDED = "completed_at IS NOT NULL"
IS_UNCERTAIN = "status = 'FAILED' AND COALESCE(error ->> 'may_have_been_delivered', 'true') = 'true'"
"""Condition of attempts that may have been delivered: without a stored error, too."""

executions = table(
    "executions",
    word("execution_id", key=True),
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
    json("output"),
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
    # Set for a success that has no row in `attempts`, because this row holds all values: start of the transaction that
    # wrote the success, like `attempts.created_at` (app.queue.reading.attempt_rows).
    instant("recorded_at"),
    instant("created_at", default_now=True),
    ForeignKeyConstraint(["job_id"], ["jobs.job_id"], name="fk_executions_job"),
    one_of("status", "chk_exec_status", ExecutionStatus),
    check("chk_executions_max_attempts", "max_attempts >= 1"),
    check("chk_executions_attempts", "attempt_count >= 0 AND attempt_count <= max_attempts"),
    check(
        "chk_executions_running",
        "status <> 'RUNNING' OR (worker_id IS NOT NULL AND started_at IS NOT NULL AND attempt_count >= 1)",
    ),
    check("chk_executions_completed", "(status IN ('SUCCESS', 'FAILED', 'CANCELLED')) = (completed_at IS NOT NULL)"),
    check("chk_executions_on_hold", "NOT on_hold OR status = 'PENDING'"),
    priority_range("executions"),
    index("idx_executions_tick", "job_id, idempotency_key", unique=True),
    # Lists, newest first: all executions, by endpoint, by job. Each index leads with the status, so that rare statuses
    # are found at once. RUNNING executions are in none of these indexes: idx_executions_running_lanes finds them, and
    # idx_executions_open finds the unfinished executions of a job. So a claim writes no entry here, and an end writes
    # one entry in each of the last three.
    index("idx_executions_waits", _NEWEST, where=_WAITS),
    index("idx_executions_waits_of_endpoint", f"endpoint, {_NEWEST}", where=_WAITS),
    index("idx_executions_ended", _NEWEST, where=_HAS_ENDED),
    index("idx_executions_ended_of_endpoint", f"endpoint, {_NEWEST}", where=_HAS_ENDED),
    index("idx_executions_ended_of_job", f"job_id, {_NEWEST}", where=_HAS_ENDED),
    # Unfinished executions of a job, however long its history. No other index holds all unfinished executions: if one
    # job had most executions, the planner might scan that other index to its end.
    index("idx_executions_open", "job_id, execution_id", where="completed_at IS NULL"),
    # Retries of paused jobs: searched often, and few executions are RETRYING.
    index("idx_executions_retrying", "job_id, execution_id", where="status = 'RETRYING'"),
    # The claim reads exactly this index: equality on queue and shard, then its ORDER BY.
    index("idx_executions_pickup", "queue, shard, run_at, execution_id", where="status IN ('QUEUED', 'RETRYING')"),
    # Claimable executions by partition and due time. The predicate equals the predicate of idx_executions_pickup, in a
    # form from which PostgreSQL cannot infer the predicates of other indexes. So, whatever the statistics, the planner
    # never reads a partition through another index, which would read the waiting executions of all endpoints.
    index(
        "idx_executions_lanes",
        "queue, shard, endpoint, limit_key, priority, run_at, execution_id",
        where="status NOT IN ('PENDING', 'RUNNING', 'SUCCESS', 'FAILED', 'CANCELLED')",
    ),
    index("idx_executions_waiting", "shard, run_at, execution_id", where="status = 'PENDING' AND NOT on_hold"),
    index("idx_executions_running_lanes", "endpoint, limit_key, worker_id, execution_id", where="status = 'RUNNING'"),
    index(
        "idx_executions_aborts",
        "worker_id, execution_id",
        where="status = 'RUNNING' AND abort_requested_at IS NOT NULL",
    ),
    # Requests to workflows, in place of the workers; nearly empty.
    index(
        "idx_executions_workflow_requests",
        "execution_id",
        where="endpoint_type = 'WORKFLOW' AND status = 'RUNNING' AND cancel_requested_at IS NOT NULL",
    ),
    index("idx_executions_finished", "shard, completed_at, execution_id", where=_HAS_ENDED),
    # Successes in the order of events: see idx_attempts_created.
    index("idx_executions_recorded", "recorded_at", where="recorded_at IS NOT NULL"),
    # Empty unless retry policies have a `max_age_ms`.
    index(
        "idx_executions_expiry",
        "shard, expires_at, execution_id",
        where="expires_at IS NOT NULL AND status IN ('QUEUED', 'RETRYING')",
    ),
    # Empty unless endpoints have a retention of their own. Such endpoints are few; each is queried separately.
    index(
        "idx_executions_results",
        "shard, result_retention_ms, completed_at, execution_id",
        where="result_retention_ms IS NOT NULL AND result_pruned_at IS NULL AND completed_at IS NOT NULL",
    ),
)

attempts = table(
    "attempts",
    word("attempt_id", key=True),
    region(),
    word("execution_id", required=True),
    count("attempt_number", required=True),
    word("status", required=True),
    word("worker_id"),
    instant("started_at", required=True),
    instant("completed_at"),
    count("duration_ms"),
    json("output"),
    json("error"),
    # Status of the execution after the attempt; NULL for a success.
    word("led_to"),
    instant("created_at", default_now=True),
    # `run_at` of the execution when the attempt was claimed, overwritten by a retry; NULL in older rows.
    instant("due_at"),
    ForeignKeyConstraint(["execution_id"], ["executions.execution_id"], name="fk_attempts_execution"),
    UniqueConstraint("execution_id", "attempt_number", name="uq_attempts_exec_number"),
    one_of("status", "chk_attempt_status", AttemptStatus),
    # Events are read in the order of the transactions that write them. The id is not in the index: events of a batch
    # have one instant and share an index entry. Readers sort each batch by id.
    index("idx_attempts_created", "created_at"),
    # Deliveries with an unknown outcome, newest first; they are few.
    index("idx_attempts_uncertain", "created_at, attempt_id", where=IS_UNCERTAIN),
)

execution_logs = table(
    "execution_logs",
    word("log_id", key=True),
    region(),
    word("execution_id", required=True),
    count("attempt_number", required=True),
    word("level", required=True),
    word("message", required=True),
    instant("logged_at", default_now=True),
    ForeignKeyConstraint(["execution_id"], ["executions.execution_id"], name="fk_logs_execution"),
    one_of("level", "chk_log_level", LogLevel),
    index("idx_logs_by_execution", "execution_id, logged_at, log_id"),
)

# Changes of state that leave no attempt: cancelled, retried manually, held by a pause, released.
execution_events = table(
    "execution_events",
    word("event_id", key=True),
    region(),
    word("execution_id", required=True),
    word("from_status", required=True),
    word("to_status", required=True),
    count("attempt_number", required=True),
    word("actor"),
    word("reason", required=True),
    instant("occurred_at", default_now=True),
    ForeignKeyConstraint(["execution_id"], ["executions.execution_id"], name="fk_execution_events_execution"),
    one_of("from_status", "chk_execution_events_from", ExecutionStatus),
    one_of("to_status", "chk_execution_events_to", ExecutionStatus),
    index("idx_execution_events_time", "occurred_at, event_id"),
    index("idx_execution_events_execution", "execution_id, occurred_at, event_id"),
)
