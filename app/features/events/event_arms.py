"""Arms of the statement that reads events: one for each source of rows that record changes."""

from app.queue.reading.attempt_rows import IS_SUCCESS, SUCCESS_ID

# Without `led_to`, a failed attempt was the last one if its execution ended at the same instant. A later manual retry
# hides that.
_OF_ATTEMPT = """
    CASE WHEN p.status = 'SUCCESS' THEN 'execution.succeeded'
         ELSE CASE COALESCE(p.led_to, CASE WHEN e.completed_at = p.ended THEN e.status END)
              WHEN 'CANCELLED' THEN 'execution.cancelled' WHEN 'FAILED' THEN 'execution.failed'
              ELSE 'attempt.failed' END END"""
_OF_CHANGE = """
    CASE WHEN p.from_status = p.to_status THEN 'execution.changed'
         WHEN p.to_status = 'CANCELLED' THEN 'execution.cancelled' WHEN p.to_status = 'FAILED' THEN 'execution.failed'
         WHEN p.reason = 'RETRIED_BY_HAND' THEN 'execution.retried' ELSE 'execution.changed' END"""
_OF_WORKFLOW = """
    CASE WHEN p.from_status IS NULL THEN 'workflow.started' WHEN p.to_status <> 'RUNNING'
         THEN 'workflow.' || lower(p.to_status) WHEN p.from_status = 'PAUSED' THEN 'workflow.resumed'
         ELSE 'workflow.retried' END"""
_ENDED_AT = "CASE WHEN status = 'DEAD' THEN last_beat_at ELSE lease_expires_at END"
_NOTHING = "CAST(NULL AS TEXT)"


def _arm(
    source: str,
    rows: tuple[str, str, str],
    columns: str,
    shown: str,
    *,
    join: str = "",
    labels: str = "CAST(NULL AS JSONB)",
    belongs_to: str = _NOTHING,
    condition: str = "",
) -> str:
    table, at, key = rows
    return f"""
      (SELECT p.at, '{source}' AS source, p.key, {shown}, {labels} AS labels, {belongs_to} AS belongs_to
         FROM (SELECT {at} AS at, {key} AS key, {columns} FROM {table}
                WHERE CAST(:with_{source} AS BOOLEAN){condition} AND {at} < CAST(:until AS TIMESTAMPTZ)
                  AND ({at}, {key}) > (CAST(:at_{source} AS TIMESTAMPTZ), CAST(:key_{source} AS TEXT))
                ORDER BY {at}, {key} LIMIT :limit) AS p {join})"""  # noqa: S608 - constants of this module


_JOIN = "JOIN executions AS e ON e.execution_id = p.execution_id"
# Read only if a filter needs them.
_LABELS_OF = "CASE WHEN CAST(:labelled AS BOOLEAN) THEN (SELECT j.labels FROM jobs AS j WHERE j.job_id = {}.job_id) END"
_LABELS = _LABELS_OF.format("e")
ARMS = (
    # Successes without a row in `attempts`, under the same source: their ids have the same form.
    _arm(
        "a",
        ("executions", "recorded_at", SUCCESS_ID),
        "execution_id, endpoint, job_id, attempt_count, worker_id, duration_ms, idempotency_key",
        f"""'execution.succeeded' AS kind, p.endpoint, p.job_id, p.execution_id, {_NOTHING} AS subject,
         jsonb_build_object('attempt', p.attempt_count, 'worker_id', p.worker_id, 'duration_ms', p.duration_ms)
         AS details""",
        labels=_LABELS_OF.format("p"),
        belongs_to="p.idempotency_key",
        condition=f" AND {IS_SUCCESS}",
    ),
    _arm(
        "a",
        ("attempts", "created_at", "attempt_id"),
        "execution_id, attempt_number, status, led_to, completed_at AS ended, worker_id, duration_ms, "
        "error->>'type' AS error",
        f"""{_OF_ATTEMPT}, e.endpoint, e.job_id, e.execution_id, {_NOTHING},
         jsonb_build_object('attempt', p.attempt_number, 'worker_id', p.worker_id, 'duration_ms', p.duration_ms,
                            'error', p.error)""",
        join=_JOIN,
        labels=_LABELS,
        belongs_to="e.idempotency_key",
    ),
    _arm(
        "b",
        ("breaker_events", "occurred_at", "event_id"),
        "target, to_state, from_state, reason",
        f"""'breaker.' || p.to_state, {_NOTHING}, {_NOTHING}, {_NOTHING}, p.target,
         jsonb_build_object('from', p.from_state, 'reason', p.reason)""",
    ),
    _arm(
        "c",
        ("audit_log", "occurred_at", "audit_id"),
        "action, resource_type, resource",
        f"""'catalogue.changed', CASE WHEN p.resource_type = 'endpoint' THEN p.resource END, {_NOTHING}, {_NOTHING},
         p.resource, jsonb_build_object('action', p.action, 'resource_type', p.resource_type)""",
    ),
    _arm(
        "e",
        ("execution_events", "occurred_at", "event_id"),
        "execution_id, from_status, to_status, attempt_number, reason",
        f"""{_OF_CHANGE}, e.endpoint, e.job_id, e.execution_id, {_NOTHING},
         jsonb_build_object('attempt', p.attempt_number, 'from', p.from_status, 'to', p.to_status,
                            'reason', p.reason)""",
        join=_JOIN,
        labels=_LABELS,
        belongs_to="e.idempotency_key",
    ),
    _arm(
        "j",
        ("jobs", "created_at", "job_id"),
        "endpoint, trigger_type, version, name, idempotency_key, labels",
        f"""CASE WHEN p.version > 1 THEN 'job.updated' ELSE 'job.created' END, p.endpoint, p.key, {_NOTHING},
         {_NOTHING}, jsonb_build_object('trigger', p.trigger_type, 'version', p.version, 'name', p.name)""",
        labels="p.labels",
        belongs_to="p.idempotency_key",
    ),
    # Repeating jobs only: a job that runs once ends with its execution.
    _arm(
        "r",
        ("jobs", "ended_at", "job_id"),
        "endpoint, trigger_type, version, name, end_reason, labels",
        f"""'job.ended', p.endpoint, p.key, {_NOTHING}, {_NOTHING},
         jsonb_build_object('trigger', p.trigger_type, 'version', p.version, 'name', p.name, 'reason', p.end_reason)""",
        labels="p.labels",
        condition=" AND ended_at IS NOT NULL",
    ),
    _arm(
        "s",
        ("workers", "started_at", "worker_id"),
        "host, pid",
        f"""'worker.started', {_NOTHING}, {_NOTHING}, {_NOTHING}, p.key,
         jsonb_build_object('host', p.host, 'pid', p.pid)""",
    ),
    _arm(
        "t",
        ("workers", _ENDED_AT, "worker_id"),
        "host, pid, status",
        f"""CASE WHEN p.status = 'DEAD' THEN 'worker.stopped' ELSE 'worker.lost' END, {_NOTHING}, {_NOTHING},
         {_NOTHING}, p.key, jsonb_build_object('host', p.host, 'pid', p.pid)""",
    ),
    _arm(
        "w",
        ("workflow_events", "occurred_at", "event_id"),
        "workflow_id, from_status, to_status, reason",
        f"""{_OF_WORKFLOW}, {_NOTHING}, {_NOTHING}, {_NOTHING}, w.name,
         jsonb_build_object('from', p.from_status, 'to', p.to_status, 'reason', p.reason)""",
        join="JOIN workflows AS w ON w.workflow_id = p.workflow_id",
        labels="w.labels",
        belongs_to="p.workflow_id",
    ),
)
