"""Completion of executions: the outbox of completion events, dead letters, and bulk jobs."""

from schema.states import BulkAction, BulkJobStatus, ExecutionStatus, Resolution
from schema.tables.columns import check, count, flag, index, instant, json, one_of, region, table, word

_NEWEST = "failed_at, letter_id"
_OPEN, _RESOLVED = "resolved_at IS NULL", "resolved_at IS NOT NULL"

# Outbox of completion events. The statement that ends an attempt or an execution writes the row; the transaction of the
# last handler deletes the row. The table is nearly empty at all times. No foreign keys, so that no lock waits for it.
execution_ends = table(
    "execution_ends",
    # Id of the attempt, or of the execution event if no attempt ended.
    word("end_id", key=True),
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
    json("effects_left"),
    one_of("status", "chk_execution_ends_status", ExecutionStatus),
    index("idx_execution_ends_due", "shard, due_at, end_id"),
)

# Failed executions, until they are resolved. A row can be read without its execution, job and endpoint.
dead_letters = table(
    "dead_letters",
    # Id of the completion event, so that each failure has one dead letter.
    word("letter_id", key=True),
    region(),
    word("execution_id", required=True),
    word("job_id", required=True),
    word("endpoint", required=True),
    count("endpoint_version", required=True),
    json("labels"),
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
    one_of("resolution", "chk_dead_letters_resolution", Resolution),
    check("chk_dead_letters_resolved", "(resolution IS NULL) = (resolved_at IS NULL)"),
    # Lists, newest first: all, by endpoint, by error type; separate indexes for open and for resolved dead letters.
    index("idx_dead_letters_open", _NEWEST, where=_OPEN),
    index("idx_dead_letters_open_of_endpoint", f"endpoint, {_NEWEST}", where=_OPEN),
    index("idx_dead_letters_open_of_error_type", f"error_type, {_NEWEST}", where=_OPEN),
    index("idx_dead_letters_resolved", _NEWEST, where=_RESOLVED),
    index("idx_dead_letters_resolved_of_endpoint", f"endpoint, {_NEWEST}", where=_RESOLVED),
    index("idx_dead_letters_resolved_of_error_type", f"error_type, {_NEWEST}", where=_RESOLVED),
    index("idx_dead_letters_execution", "execution_id, letter_id"),
)

# Bulk jobs over the dead letters that match a filter, oldest first.
redrives = table(
    "redrives",
    word("redrive_id", key=True),
    word("status", required=True),
    json("wanted", required=True),
    word("to_endpoint"),
    # Dead letters per second.
    count("rate", required=True),
    # The first letters, and how many of their executions must succeed before the rest follows; NULL: no trial.
    count("trial"),
    count("least"),
    # Executions of the trial, as a list of ids; NULL before the first.
    json("trial_executions"),
    # Result of the trial; the redrive goes on if `trial_passed_at` is set.
    word("trial_result"),
    instant("trial_passed_at"),
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
    one_of("status", "chk_redrives_status", BulkJobStatus),
    check("chk_redrives_ended", "(status IN ('STOPPED', 'DONE')) = (ended_at IS NOT NULL)"),
    index("idx_redrives_created", "created_at, redrive_id"),
    index("idx_redrives_running", "redrive_id", where="status = 'RUNNING'"),
)

# Bulk jobs over the executions or repeating jobs that match a filter, by creation time, or over dead letters, by the
# time of their failure.
bulk_operations = table(
    "bulk_operations",
    word("operation_id", key=True),
    word("action", required=True),
    word("status", required=True),
    json("wanted", required=True),
    # Parameters of the action: see app.features.bulk_jobs.store.
    json("parameters", required=True),
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
    one_of("action", "chk_bulk_operations_actions", BulkAction),
    one_of("status", "chk_bulk_operations_status", BulkJobStatus),
    check("chk_bulk_operations_ended", "(status IN ('STOPPED', 'DONE')) = (ended_at IS NOT NULL)"),
    index("idx_bulk_operations_created", "created_at, operation_id"),
    index("idx_bulk_operations_running", "operation_id", where="status = 'RUNNING'"),
)
