"""Backlogs: due executions written by SQL, because the API would take minutes; PostgreSQL only."""

import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg2

from benchmarks.history import id_of

# Workers look back only seconds for rows that become visible after their due time, so a portion must commit quickly.
_PORTION = 10_000
_WRITERS = 2
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
# Like pgqueuer's own enqueue, add a log row for each job.
_FILL_PGQUEUER = """
    WITH added AS (
      INSERT INTO pgqueuer (priority, entrypoint, payload, execute_after, status)
      SELECT {priority}, e.entrypoint,
             convert_to(CAST(CAST(%(message)s AS JSONB) || jsonb_build_object(
               'url', e.url, 'key', replace(CAST(gen_random_uuid() AS TEXT), '-', '')) AS TEXT), 'UTF8'),
             {due}, 'queued'
        FROM generate_series(CAST(%(first)s AS BIGINT), CAST(%(last)s AS BIGINT)) AS n
       CROSS JOIN unnest(CAST(%(entrypoints)s AS TEXT[]), CAST(%(urls)s AS TEXT[])) AS e (entrypoint, url)
      RETURNING id, entrypoint, priority)
    INSERT INTO pgqueuer_log (job_id, status, entrypoint, priority) SELECT id, 'queued', entrypoint, priority FROM added
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
    """Write `count` rows for each endpoint, in shard 0; `due` and `columns` are expressions, `n` is the row number."""
    given = columns or {}
    statement = _FILL.format(
        job=id_of("job", "clock_timestamp()"),
        execution=id_of("exec", "clock_timestamp()"),
        due=due,
        names="".join(f", {name}" for name in given),
        values="".join(f", {value}" for value in given.values()),
    )
    values = {"endpoints": list(endpoints), "input": payload, "status": status}
    _fill(url, statement, count, values, max(1, _PORTION // len(endpoints)))


def fill_pgqueuer(
    url: str, entrypoints: Mapping[str, str], count: int, message: Mapping[str, Any], *, priority: str, due: str = _DUE
) -> None:
    """Write `count` rows of pgqueuer for each URL; `entrypoints` maps URLs to entrypoints; otherwise as fill()."""
    statement = _FILL_PGQUEUER.format(priority=priority, due=due)
    values = {
        "entrypoints": list(entrypoints.values()),
        "urls": list(entrypoints),
        "message": json.dumps(message),
    }
    _fill(url, statement, count, values, max(1, _PORTION // len(entrypoints)))


def _fill(url: str, statement: str, count: int, values: Mapping[str, Any], portion: int) -> None:
    """Write portions over several concurrent connections."""
    firsts = iter(range(1, count + 1, portion))
    taking = threading.Lock()

    def write() -> None:
        with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute("SET synchronous_commit = off")
            while True:
                with taking:
                    first = next(firsts, None)
                if first is None:
                    return
                last = min(count, first + portion - 1)
                cursor.execute(statement, {**values, "first": first, "last": last})

    with ThreadPoolExecutor(_WRITERS) as pool:
        for written in [pool.submit(write) for _ in range(_WRITERS)]:
            written.result()


def clear(url: str) -> None:
    """Remove all jobs; no worker may run."""
    execute(url, _CLEAR)


def execute(url: str, statement: str) -> None:
    """Execute a statement without a result."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(statement)


def ask(url: str, query: str) -> list[tuple[int, int]]:
    """Return the rows of a query, two numbers each."""
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return [(int(first), int(second)) for first, second in cursor.fetchall()]
