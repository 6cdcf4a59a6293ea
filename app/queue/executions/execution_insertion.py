"""Insertion of executions: the columns of a new row, shared by all statements that insert rows."""

# Columns that an execution copies from its job.
OF_JOB = ("job_id", "endpoint", "endpoint_version", "endpoint_type", "max_attempts", "limit_key", "followed")
# Queue and priority default to the endpoint's.
OF_JOB_FOR_EXECUTION = (*OF_JOB, "queue", "priority", "max_age_ms")
OF_ENDPOINT = ("queue", "routed_queue", "priority", "result_retention_ms")


def insert_executions(
    job: str,
    endpoint: str,
    *,
    execution_id: str,
    shard: str,
    idempotency_key: str,
    status: str,
    scheduled_at: str,
    run_at: str | None = None,
    trace_context: str | None = None,
) -> str:
    """Return the `INSERT … SELECT` of executions; the caller appends the FROM.

    `job` is the alias of a table with the columns OF_JOB_FOR_EXECUTION, `endpoint` of one with the columns OF_ENDPOINT.
    The endpoint is current, so a change of queue, route or priority applies to the next execution. The other
    arguments are SQL expressions; `run_at` defaults to `scheduled_at`, `trace_context` to the job's.
    """
    columns = (
        {name: f"{job}.{name}" for name in OF_JOB}
        | {
            "execution_id": execution_id,
            "shard": shard,
            "queue": queue_of(job, endpoint),
            "priority": priority_of(job, endpoint),
            "result_retention_ms": f"{endpoint}.result_retention_ms",
            "idempotency_key": idempotency_key,
            "status": status,
            "run_at": run_at or scheduled_at,
            "scheduled_at": scheduled_at,
            "expires_at": expires_at(run_at or scheduled_at, f"{job}.max_age_ms"),
        }
        | ({} if trace_context is None else {"trace_context": trace_context})
    )
    return f"""INSERT INTO executions ({", ".join(columns)})
      SELECT {", ".join(columns.values())}"""


def expires_at(since: str, max_age_ms: str) -> str:
    """Return the SQL expression of an execution's `expires_at`: NULL if `max_age_ms` is NULL."""
    return f"{since} + {max_age_ms} * INTERVAL '1 millisecond'"


def queue_of(job: str, endpoint: str) -> str:
    return f"COALESCE({job}.queue, {endpoint}.queue, {endpoint}.routed_queue, lower({job}.endpoint_type))"


def priority_of(job: str, endpoint: str) -> str:
    return f"COALESCE({job}.priority, {endpoint}.priority)"
