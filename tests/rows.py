"""Rows in any state, inserted directly, as the API and the scheduler write them."""

import json
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import insert, text

from app.kernel import ids
from app.kernel.db import Database
from app.queue.reading.attempt_rows import ALL_ATTEMPTS
from schema import tables
from schema.states import FINAL, EndpointType, ExecutionStatus

_PORTION = 5_000  # one statement with many more takes longer than the time limit of statements on a busy machine
_ADD = text(
    """
    WITH u AS (SELECT * FROM unnest(CAST(:jobs AS TEXT[]), CAST(:execs AS TEXT[]), CAST(:shards AS BIGINT[]))
                 AS u (job_id, execution_id, shard)),
    j AS (INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, idempotency_key,
                            input, max_attempts, max_age_ms)
          SELECT job_id, :endpoint, 1, :type, 'IMMEDIATE', job_id, CAST(:input AS JSONB), :max,
                 (SELECT CAST(retry_policy->>'max_age_ms' AS BIGINT) FROM endpoints WHERE name = :endpoint)
            FROM u
          RETURNING job_id, max_age_ms)
    INSERT INTO executions (execution_id, job_id, endpoint, endpoint_version, endpoint_type, queue, shard,
                            idempotency_key, status, max_attempts, run_at, scheduled_at, expires_at)
    SELECT u.execution_id, u.job_id, :endpoint, 1, :type, :queue, u.shard, u.job_id, :status, :max,
           now() + :ms * INTERVAL '1 millisecond', now() + :ms * INTERVAL '1 millisecond',
           now() + (:ms + j.max_age_ms) * INTERVAL '1 millisecond'
      FROM u JOIN j ON j.job_id = u.job_id
    """
)
_LASTING = {"api_keys", "catalog_revision", "region_status"}


def delete_all(database: Database) -> None:
    """Delete all rows except those of a new database, and API keys. TRUNCATE takes ten times as long."""
    names = [table.name for table in reversed(tables.metadata.sorted_tables) if table.name not in _LASTING]
    database.fetch(text("; ".join(f"DELETE FROM {name}" for name in names)))


def add_endpoint(
    database: Database,
    name: str = "target",
    *,
    type_: EndpointType = EndpointType.HTTP,
    spec: dict[str, Any] | None = None,
    retry_policy: dict[str, Any] | None = None,
    config_ref: str | None = None,
) -> str:
    """Register an endpoint at version 1."""
    params = {
        "name": name,
        "type": type_.value,
        "spec": json.dumps(spec or {"url": "http://127.0.0.1:9/", "method": "POST"}),
        "policy": json.dumps(retry_policy) if retry_policy else None,
        "config": config_ref,
    }
    database.fetch(
        text(
            "INSERT INTO endpoints (name, endpoint_type, spec, retry_policy, config_ref) "
            "VALUES (:name, :type, CAST(:spec AS JSONB), CAST(:policy AS JSONB), :config)"
        ),
        params,
    )
    database.fetch(
        text(
            "INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec, retry_policy, config_ref) "
            "VALUES (:name, 1, :type, CAST(:spec AS JSONB), CAST(:policy AS JSONB), :config)"
        ),
        params,
    )
    return name


def add_executions(
    database: Database,
    count: int = 1,
    *,
    endpoint: str = "target",
    type_: EndpointType = EndpointType.HTTP,
    status: str = "QUEUED",
    due_in: timedelta = timedelta(0),
    max_attempts: int = 1,
    input_: Any = None,
    shards: int = 1,
) -> list[str]:
    """Create one-shot jobs with one execution each, due `due_in` from now; return execution ids in their order."""
    executions = sorted(ids.execution_id() for _ in range(count))
    params = {
        "endpoint": endpoint,
        "type": type_.value,
        "queue": type_.queue,
        "status": status,
        "ms": due_in / timedelta(milliseconds=1),
        "max": max_attempts,
        "input": json.dumps(input_ if input_ is not None else {}),
    }
    for begun in range(0, count, _PORTION):
        some = executions[begun : begun + _PORTION]
        jobs, shard = [ids.job_id() for _ in some], [ids.shard_of(each, shards) for each in some]
        database.fetch(_ADD, params | {"jobs": jobs, "execs": some, "shards": shard})
    return executions


def analyze(database: Database) -> None:
    """Take statistics of executions and jobs, for joins of all rows.

    An automatic ANALYZE during their insert sees no rows, and by its statistics such a join exceeds its time limit.
    """
    for table in ("executions", "jobs"):
        database.fetch(text(f"ANALYZE {table}"))


def move_to_one_shard(database: Database) -> None:
    """Put all executions into shard 0, whatever number of shards the database has by default."""
    database.fetch(text("UPDATE executions SET shard = 0 WHERE shard <> 0"))


def set_status(database: Database, job_id: str, status: str) -> None:
    """Put the executions of a job into a state after one attempt."""
    database.fetch(
        text(
            "UPDATE executions SET status = :status, worker_id = 'w', started_at = now(), attempt_count = 1, "
            "completed_at = CASE WHEN :status IN ('SUCCESS', 'FAILED', 'CANCELLED') THEN now() END WHERE job_id = :id"
        ),
        {"status": status, "id": job_id},
    )


def add_tick(database: Database, job_id: str, status: str = "QUEUED", *, due_in: timedelta = timedelta(0)) -> str:
    """Add an execution to a job, as the scheduler does; a started execution is in its first attempt of three."""
    execution_id, now = ids.execution_id(), database_now(database)
    has_begun, is_final = status not in {"PENDING", "QUEUED"}, ExecutionStatus(status) in FINAL
    values = {
        "execution_id": execution_id,
        "job_id": job_id,
        "endpoint": "target",
        "endpoint_version": 1,
        "endpoint_type": "HTTP",
        "queue": "http",
        "shard": 0,
        "idempotency_key": execution_id,
        "status": status,
        "max_attempts": 3,
        "attempt_count": int(has_begun),
        "worker_id": "w" if has_begun else None,
        "scheduled_at": now + due_in,
        "run_at": now + due_in,
        "created_at": now,
        "started_at": now if has_begun else None,
        "completed_at": now if is_final else None,
    }
    database.fetch(insert(tables.executions).values(values).returning(tables.executions.c.execution_id))
    return execution_id


def add_attempt(database: Database, execution_id: str, number: int, status: str, **values: Any) -> None:
    """Add a finished attempt to an execution; `values` are its output or its error."""
    database.fetch(
        text(
            "INSERT INTO attempts (attempt_id, execution_id, attempt_number, status, worker_id, started_at, "
            "  completed_at, duration_ms, output, error) "
            "VALUES (:id, :execution, :number, :status, 'wrk_1', now(), now() + INTERVAL '1 second', 1000, "
            "  CAST(:output AS JSONB), CAST(:error AS JSONB))"
        ),
        {
            "id": f"att_{number}",
            "execution": execution_id,
            "number": number,
            "status": status,
            "output": json.dumps(values.get("output")) if "output" in values else None,
            "error": json.dumps(values.get("error")) if "error" in values else None,
        },
    )


def add_log(database: Database, execution_id: str, number: int, level: str, *, attempt: int = 1) -> None:
    """Add a log line to an execution."""
    database.fetch(
        text(
            "INSERT INTO execution_logs (log_id, execution_id, attempt_number, level, message, logged_at) "
            "VALUES (:id, :execution, :attempt, :level, :message, now() + :after)"
        ),
        {
            "id": f"log_{number}",
            "execution": execution_id,
            "attempt": attempt,
            "level": level,
            "message": f"line {number}",
            "after": timedelta(seconds=number),
        },
    )


def execution(database: Database, execution_id: str) -> Any:
    """Read one execution."""
    return database.fetch(text("SELECT * FROM executions WHERE execution_id = :id"), {"id": execution_id})[0]


def attempts(database: Database, execution_id: str) -> list[Any]:
    """Read the attempts of an execution, in order."""
    query = text(f"SELECT * FROM {ALL_ATTEMPTS} AS tried WHERE execution_id = :id ORDER BY attempt_number")
    return list(database.fetch(query, {"id": execution_id}))


def job_of(database: Database, execution_id: str) -> Any:
    """Read the job of an execution."""
    query = text("SELECT j.* FROM jobs j JOIN executions e ON e.job_id = j.job_id WHERE e.execution_id = :id")
    return database.fetch(query, {"id": execution_id})[0]


def statuses(database: Database) -> dict[str, int]:
    """Count executions by status."""
    rows = database.fetch(text("SELECT status, count(*) AS n FROM executions GROUP BY status ORDER BY status"))
    return {row.status: row.n for row in rows}


def is_a_lock_waited_for(database: Database) -> bool:
    """Return whether any statement waits for a lock of another transaction; PostgreSQL only."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    return bool(database.fetch(text(waiting)))


def database_now(database: Database) -> datetime:
    """Read the database's clock."""
    now: datetime = database.fetch(text("SELECT now() AS now"))[0].now
    return now


def add_letter(database: Database, execution_id: str | None = None, **values: Any) -> str:
    """Fail an execution, by default a new one, and add its dead letter; `values` override columns of the letter."""
    failed = execution_id or add_executions(database)[0]
    end = text(
        "UPDATE executions SET status = 'FAILED', completed_at = now(), attempt_count = 1 WHERE execution_id = :id "
        "RETURNING execution_id, job_id, endpoint, endpoint_version, completed_at AS failed_at"
    )
    (row,) = database.fetch(end, {"id": failed})
    letter = {"letter_id": ids.attempt_id(), "error_type": "HTTP_ERROR", "attempt_count": 1}
    add = insert(tables.dead_letters).values(letter | row._asdict() | values)
    return str(database.fetch(add.returning(tables.dead_letters.c.letter_id))[0].letter_id)


def add_rule(database: Database, name: str, channel: str, **conditions: Any) -> None:
    """Add a notification rule as it is stored; without conditions it matches every failure."""
    rule = {"events": ["execution.failed"], "channels": [channel], **(conditions or {"all": True})}
    database.fetch(insert(tables.notification_rules).values(name=name, rule_json=rule))


def add_letters(database: Database, count: int) -> list[str]:
    """Create `count` failed executions with their dead letters; return the execution ids."""
    failed = add_executions(database, count)
    end = "UPDATE executions SET status = 'FAILED', completed_at = now(), attempt_count = 1"
    database.fetch(text(f"{end} WHERE execution_id = ANY (:ids)"), {"ids": failed})
    letters = text(
        "INSERT INTO dead_letters (letter_id, execution_id, job_id, endpoint, endpoint_version, error_type, "
        "  attempt_count, failed_at) "
        "SELECT 'att_' || execution_id, execution_id, job_id, endpoint, 1, 'HTTP_ERROR', 1, completed_at "
        "  FROM executions WHERE execution_id = ANY (:ids)"
    )
    database.fetch(letters, {"ids": failed})
    return failed


def add_end(database: Database, end_id: str, age: str) -> None:
    """Add a completion event to the outbox, with an age such as '2 minutes'."""
    put = (
        "INSERT INTO execution_ends (end_id, shard, execution_id, endpoint, status, attempt, ended_at) "
        "VALUES (:id, 0, 'exec_0', 'target', 'FAILED', 1, now() - CAST(:age AS INTERVAL))"
    )
    database.fetch(text(put), {"id": end_id, "age": age})


def add_breaker(database: Database, target: str, state: str = "closed", *, open_for: timedelta = timedelta(0)) -> None:
    """Insert a breaker that was watched until now."""
    database.fetch(
        text(
            "INSERT INTO breakers (target, state, watched_until, open_until) VALUES (:target, :state, now(), "
            "CASE WHEN CAST(:state AS TEXT) = 'open' THEN now() + CAST(:ms AS BIGINT) * INTERVAL '1 millisecond' END)"
        ),
        {"target": target, "state": state, "ms": open_for / timedelta(milliseconds=1)},
    )
