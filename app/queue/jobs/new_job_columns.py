"""Columns of a new job's row: types of the columns that a creation sets, and initial values of all other columns."""

from typing import Any

# Columns of every job, and columns of repeating jobs only.
JOB_COLUMNS = {
    "job_id": "TEXT",
    "endpoint": "TEXT",
    "endpoint_version": "BIGINT",
    "endpoint_type": "TEXT",
    "trigger_type": "TEXT",
    "idempotency_key": "TEXT",
    "name": "TEXT",
    "labels": "JSONB",
    "queue": "TEXT",
    "priority": "BIGINT",
    "limit_key": "TEXT",
    "input": "JSONB",
    "max_attempts": "BIGINT",
    "max_age_ms": "BIGINT",
    "run_at": "TIMESTAMPTZ",
    "trace_context": "TEXT",
    "callbacks": "JSONB",
    "followed": "BIGINT",
    "callback_of": "TEXT",
}
REPEATING_COLUMNS = {
    "status": "TEXT",
    "version": "BIGINT",
    "previous_version_id": "TEXT",
    "first_version_id": "TEXT",
    "cron_expression": "TEXT",
    "cron_timezone": "TEXT",
    "cron_starts_at": "TIMESTAMPTZ",
    "cron_ends_at": "TIMESTAMPTZ",
    "interval_ms": "BIGINT",
    "fixed_delay": "BOOLEAN",
    "cron_next_run_at": "TIMESTAMPTZ",
    "catch_up": "TEXT",
    "max_catch_up": "BIGINT",
    "overlap": "TEXT",
}
# Initial values of the other columns, which therefore need no read.
DEFAULTS: dict[str, Any] = {
    "replaced_by_id": None,
    "cron_last_tick_at": None,
    "skipped_catch_up": 0,
    "skipped_overlap": 0,
    "paused_at": None,
    "retired_at": None,
    "ended_at": None,
    "end_reason": None,
}
