"""Traces of a long history beside its executions: letters, rollups, samples, schedules, entries of the audit log.

Functions of `benchmarks.history` have filled the database before. PostgreSQL only.
"""

from sqlalchemy import Connection, text

from app.features.rollups.rollup_slots import kept
from benchmarks.history import id_of
from schema.rollup_bounds import LATE_COLUMNS, TOOK_COLUMNS

SCHEDULES = 1_000
AUDIT_ENTRIES = 20_000
ROLLUP_DAYS = 90

# Half of the failures are open dead letters, half are resolved.
_LETTERS = text(
    f"""
    INSERT INTO dead_letters (letter_id, execution_id, job_id, endpoint, endpoint_version, error_type, message,
                              attempt_count, failed_at, resolution, resolved_at, resolved_by)
    SELECT {id_of("evt", "completed_at")}, execution_id, job_id, endpoint, 1, 'HTTP_ERROR',
           'The endpoint answered 500 to request ' || substr(execution_id, 6), attempt_count, completed_at,
           CASE WHEN is_resolved THEN 'ARCHIVED' END, CASE WHEN is_resolved THEN completed_at END,
           CASE WHEN is_resolved THEN 'ops' END
      FROM (SELECT *, get_byte(decode(right(execution_id, 2), 'hex'), 0) < 128 AS is_resolved
              FROM executions WHERE status = 'FAILED') AS e
    """
)

_CANCELLED = text(
    f"""
    INSERT INTO execution_events (event_id, execution_id, from_status, to_status, attempt_number, actor, reason,
                                  occurred_at)
    SELECT {id_of("evt", "completed_at")}, execution_id, 'PENDING', 'CANCELLED', 0, 'ops', 'CANCELLED', completed_at
      FROM executions WHERE status = 'CANCELLED'
    """
)

_SLOTS = """
      FROM generate_series(to_timestamp(floor(extract(epoch FROM now()) / :step) * :step - :kept_s),
                           now() - :step * INTERVAL '1 second', :step * INTERVAL '1 second') AS slot"""
_CLASSES = ", ".join((*LATE_COLUMNS, *TOOK_COLUMNS))
_OF_CLASSES = ", ".join("2 * :step" for _ in (*LATE_COLUMNS, *TOOK_COLUMNS))
_ROLLUPS = text(
    f"""
    INSERT INTO delivery_rollups (endpoint, step_s, slot, attempts, succeeded, retried, failed, {_CLASSES})
    SELECT name, :step, slot, 30 * :step, 28 * :step, :step, :step, {_OF_CLASSES} {_SLOTS}
     CROSS JOIN (SELECT name FROM endpoints UNION ALL SELECT '') AS named ON CONFLICT DO NOTHING
    """
)
_FAILURES = text(
    f"""
    INSERT INTO failure_rollups (endpoint, step_s, slot, error_type, failed, retried)
    SELECT name, :step, slot, error_type, :step, :step {_SLOTS}
     CROSS JOIN (SELECT name FROM endpoints UNION ALL SELECT '') AS named
     CROSS JOIN (VALUES ('HTTP_ERROR'), ('TIMEOUT')) AS broken (error_type) ON CONFLICT DO NOTHING
    """
)
_SAMPLES = text(
    f"""
    INSERT INTO queue_samples (queue, step_s, slot, due, oldest_ms, workers, in_flight, slots)
    SELECT queue, :step, slot, 10, 5, 2, 7, 16 {_SLOTS}
     CROSS JOIN (VALUES (''), ('http')) AS sampled (queue) ON CONFLICT DO NOTHING
    """
)
_MARKS = text(
    """
    INSERT INTO rollup_marks (step_s, reached)
    VALUES (:step, to_timestamp(floor(extract(epoch FROM now()) / :step) * :step))
    ON CONFLICT (step_s) DO UPDATE SET reached = excluded.reached
    """
)

_SCHEDULES = text(
    f"""
    INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, idempotency_key, name, input,
                      max_attempts, cron_expression, cron_timezone, cron_starts_at, cron_next_run_at, created_at)
    SELECT {id_of("job", "now()")}, 'history-' || n % 10, 1, 'HTTP', 'CRON', 'history-schedule-' || n,
           'schedule-' || n, '{{}}', 3, n % 60 || ' */2 * * *', 'UTC', now() + INTERVAL '1 day',
           now() + INTERVAL '1 day', now()
      FROM generate_series(1, :count) AS n
    """
)

_AUDIT = text(
    f"""
    INSERT INTO audit_log (audit_id, actor_name, action, resource_type, resource, occurred_at)
    SELECT {id_of("aud", "at")}, 'ops', 'replace', 'endpoint', 'history-' || n % 10, at
      FROM generate_series(1, :count) AS n
     CROSS JOIN LATERAL (SELECT now() - n * INTERVAL '2 minutes' AS at) AS entry
    """
)


def leave(connection: Connection) -> None:
    """Add the traces to a database that has the executions of a history; the rollups are continued until now."""
    if not connection.execute(text("SELECT EXISTS (SELECT 1 FROM dead_letters)")).scalar_one():
        connection.execute(_LETTERS)
        connection.execute(_CANCELLED)
        connection.execute(_SCHEDULES, {"count": SCHEDULES})
        connection.execute(_AUDIT, {"count": AUDIT_ENTRIES})
    for length in kept(ROLLUP_DAYS):
        for statement in (_ROLLUPS, _FAILURES, _SAMPLES, _MARKS):
            connection.execute(statement, length)
    connection.execute(text("ANALYZE"))
