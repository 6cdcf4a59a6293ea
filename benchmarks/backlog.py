"""Backlog: executions that are due, written by SQL because the API would take minutes; for PostgreSQL."""

from collections.abc import Mapping, Sequence
from contextlib import closing

import psycopg2

from benchmarks.history import id_of

# Workers look back by seconds, no further, for rows that become visible after they were due.
_PORTION = 10_000
_DUE = "now()"

_FILL = """
    WITH made AS MATERIALIZED (
      SELECT endpoint, n, {job} AS job_id, {execution} AS execution_id,
             replace(CAST(gen_random_uuid() AS TEXT), '-', '') AS key
        FROM generate_series(CAST(%(first)s AS BIGINT), CAST(%(last)s AS BIGINT)) AS n
       CROSS JOIN unnest(CAST(%(endpoints)s AS TEXT[])) AS e (endpoint)),
    job AS (
      INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, idempotency_key, input,
                        max_attempts)
      SELECT job_id, endpoint, 1, 'HTTP', 'IMMEDIATE', key, CAST(%(input)s AS JSONB), 3 FROM made)
    INSERT INTO executions (execution_id, job_id, endpoint, endpoint_version, endpoint_type, queue, shard,
                            idempotency_key, status, max_attempts, run_at, scheduled_at{names})
    SELECT execution_id, job_id, endpoint, 1, 'HTTP', 'http', 0, key, %(status)s, 3, {due}, {due}{values} FROM made
"""
_CLEAR = "TRUNCATE jobs, executions, attempts, execution_logs, execution_events"


def fill(
    url: str,
    endpoints: Sequence[str],
    count: int,
    payload: str,
    *,
    status: str = "QUEUED",
    due: str = _DUE,
    columns: Mapping[str, str] | None = None,
) -> None:
    """Write so many rows for each endpoint, by shard 0; `due` and `columns` are expressions, `n` counts the rows."""
    given = columns or {}
    statement = _FILL.format(
        job=id_of("job", "clock_timestamp()"),
        execution=id_of("exec", "clock_timestamp()"),
        due=due,
        names="".join(f", {name}" for name in given),
        values="".join(f", {value}" for value in given.values()),
    )
    portion = max(1, _PORTION // len(endpoints))
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("SET synchronous_commit = off")
        for first in range(1, count + 1, portion):
            last = min(count, first + portion - 1)
            values = {"first": first, "last": last, "endpoints": list(endpoints), "input": payload, "status": status}
            cursor.execute(statement, values)


def clear(url: str) -> None:
    """Remove all jobs; nothing may work on them."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(_CLEAR)
