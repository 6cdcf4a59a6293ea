"""Insertion of executions: the columns of a new row, shared by every statement that inserts one."""

# What an execution takes over from its job, under the same names.
OF_JOB = ("job_id", "endpoint", "endpoint_version", "endpoint_type", "max_attempts")


def insert_executions(
    job: str,
    *,
    execution_id: str,
    shard: str,
    queue: str,
    idempotency_key: str,
    status: str,
    scheduled_at: str,
    run_at: str | None = None,
) -> str:
    """Return the `INSERT … SELECT` of executions, to be followed by its FROM.

    `job` names what OF_JOB is selected from; the other arguments are SQL expressions. Without `run_at` an execution is
    due when it is scheduled.
    """
    columns = {name: f"{job}.{name}" for name in OF_JOB} | {
        "execution_id": execution_id,
        "shard": shard,
        "queue": queue,
        "idempotency_key": idempotency_key,
        "status": status,
        "run_at": run_at or scheduled_at,
        "scheduled_at": scheduled_at,
    }
    return f"""INSERT INTO executions ({", ".join(columns)})
      SELECT {", ".join(columns.values())}"""
