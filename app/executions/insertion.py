"""Insertion of executions: the columns of a new row, shared by every statement that inserts one."""

# What an execution takes over from its job, under the same names.
OF_JOB = ("job_id", "endpoint", "endpoint_version", "endpoint_type", "max_attempts")


def insert_executions(
    job: str, *, execution_id: str, shard: str, queue: str, idempotency_key: str, status: str, due: str
) -> str:
    """Return the `INSERT … SELECT` of executions, to be followed by its FROM.

    `job` names what OF_JOB is selected from; the other arguments are SQL expressions.
    """
    columns = {name: f"{job}.{name}" for name in OF_JOB} | {
        "execution_id": execution_id,
        "shard": shard,
        "queue": queue,
        "idempotency_key": idempotency_key,
        "status": status,
        "run_at": due,
        "scheduled_at": due,
    }
    return f"""INSERT INTO executions ({", ".join(columns)})
      SELECT {", ".join(columns.values())}"""
