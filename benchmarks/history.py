"""A long history: executions finished within 29 days, and delayed executions; PostgreSQL only.

`python -m benchmarks.history URL` fills a migrated database, one portion per statement. The rows and their order equal
those that the product would have written, including ids ordered by time.
"""

import argparse
import time
from datetime import timedelta

from sqlalchemy import Connection, create_engine, text

from app.kernel import ids
from schema.url import database_url

DAYS = 29
PORTIONS = 100
COMMON_ENDPOINTS = 10  # `history-0` and so on
RARE_ENDPOINT, RARE_EXECUTIONS = "history-rare", 50  # its executions are the oldest
UNUSED_ENDPOINT = "history-unused"
CRON_JOB_SHARE = 10  # each tenth execution belongs to one cron job

_ENDPOINTS = text(
    """
    WITH spec AS (
      SELECT name, CAST('{"url": "http://127.0.0.1:9/", "method": "POST"}' AS JSONB) AS spec
        FROM unnest(CAST(:names AS TEXT[])) AS u (name)),
    current AS (
      INSERT INTO endpoints (name, endpoint_type, spec) SELECT name, 'HTTP', spec FROM spec RETURNING name)
    INSERT INTO endpoint_versions (endpoint, version, endpoint_type, spec) SELECT name, 1, 'HTTP', spec FROM spec
    """
)

# The next run of this job lies beyond any measurement.
_CRON_JOB = text(
    """
    INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, idempotency_key, input,
                      max_attempts, cron_expression, cron_timezone, cron_starts_at, cron_next_run_at, created_at)
    VALUES (:cron_job, 'history-0', 1, 'HTTP', 'CRON', 'history-cron', '{}', 3, '* * * * *', 'UTC',
            now() + INTERVAL '30 days', now() + INTERVAL '30 days', now() - :days * INTERVAL '1 day')
    """
)


def id_of(prefix: str, at: str) -> str:
    """Return the SQL expression of an id as app.kernel.ids makes it: nanoseconds of an instant and 64 random bits."""
    time = f"lpad(to_hex(CAST(extract(epoch FROM {at}) * 1000000 AS BIGINT) * 1000), 16, '0')"
    return f"'{prefix}_' || {time} || substr(replace(CAST(gen_random_uuid() AS TEXT), '-', ''), 17)"


# Row n was created at :start + n steps. One job in twenty has a name, another job in twenty has labels.
_CREATED = "CAST(:start AS TIMESTAMPTZ) + n * CAST(:step AS INTERVAL)"
_JOB = f"""
    created_at, 1 + n % 1000 AS user_id, n % {CRON_JOB_SHARE} = 0 AS of_cron,
    CASE WHEN n % 20 = 1 THEN 'report-' || n % 400 END AS name,
    CASE WHEN n % 20 = 3 THEN jsonb_build_object('team', 'team-' || n % 400, 'stage', 'live') END AS labels,
    {id_of("job", "created_at")} AS own_job_id, {id_of("exec", "created_at")} AS execution_id,
    replace(CAST(gen_random_uuid() AS TEXT), '-', '') AS own_key"""
_INSERT_JOBS = """
      INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, status, idempotency_key, name,
                        labels, input, max_attempts, run_at, created_at, retired_at)"""
_INSERT_EXECUTIONS = """
      INSERT INTO executions (execution_id, job_id, endpoint, endpoint_version, endpoint_type, queue, shard,
                              idempotency_key, status, output, attempt_count, max_attempts, worker_id, run_at,
                              scheduled_at, started_at, completed_at, duration_ms, config_revision, created_at,
                              recorded_at)"""

# 97 % succeed at the first attempt, 2 % fail at the third, 1 % are cancelled before the first.
_FINISHED = text(
    f"""
    WITH portion AS MATERIALIZED (
      SELECT n, (n / {CRON_JOB_SHARE}) % 100 AS fate, {_CREATED} AS created_at
        FROM generate_series(CAST(:first AS BIGINT), CAST(:last AS BIGINT)) AS n),
    made AS MATERIALIZED (
      SELECT n, CASE WHEN fate < 97 THEN 'SUCCESS' WHEN fate < 99 THEN 'FAILED' ELSE 'CANCELLED' END AS status,
             CASE WHEN fate < 97 THEN 1 WHEN fate < 99 THEN 3 ELSE 0 END AS attempts,
             CASE WHEN n <= :rare AND n % {CRON_JOB_SHARE} <> 0 THEN '{RARE_ENDPOINT}'
                  WHEN n % {CRON_JOB_SHARE} = 0 THEN 'history-0'
                  ELSE 'history-' || (n / {CRON_JOB_SHARE} + n) % {COMMON_ENDPOINTS} END AS endpoint, {_JOB}
        FROM portion),
    run AS MATERIALIZED (
      SELECT made.*, CASE WHEN of_cron THEN :cron_job ELSE own_job_id END AS job_id,
             created_at + attempts * INTERVAL '40 milliseconds' AS ended_at,
             CASE WHEN of_cron THEN :cron_job || '_' || CAST(extract(epoch FROM created_at) * 1000 AS BIGINT)
                  ELSE own_key END AS key,
             CASE WHEN status = 'SUCCESS' THEN jsonb_build_object('status_code', 200, 'body', 'ok') END AS output
        FROM made),
    job AS ({_INSERT_JOBS}
      SELECT job_id, endpoint, 1, 'HTTP', 'IMMEDIATE', 'RETIRED', key, name, labels,
             jsonb_build_object('user_id', 'u_' || user_id), 3, NULL, created_at, ended_at
        FROM run WHERE NOT of_cron),
    execution AS ({_INSERT_EXECUTIONS}
      SELECT execution_id, job_id, endpoint, 1, 'HTTP', 'http', n % :shards, key, status, output, attempts, 3,
             CASE WHEN attempts > 0 THEN :worker END, created_at, created_at,
             CASE WHEN attempts > 0 THEN ended_at - INTERVAL '20 milliseconds' END, ended_at,
             CASE WHEN attempts > 0 THEN 20 END, 0, created_at, CASE WHEN status = 'SUCCESS' THEN ended_at END
        FROM run),
    tried AS MATERIALIZED (
      SELECT run.*, number, created_at + number * INTERVAL '40 milliseconds' AS tried_at
        FROM run CROSS JOIN LATERAL generate_series(1, attempts) AS number WHERE status = 'FAILED'),
    attempt AS (
      INSERT INTO attempts (attempt_id, execution_id, attempt_number, status, worker_id, started_at, completed_at,
                            duration_ms, error, created_at)
      SELECT {id_of("att", "tried_at")}, execution_id, number, status, :worker, tried_at - INTERVAL '20 milliseconds',
             tried_at, 20, jsonb_build_object('type', 'HTTP_ERROR', 'status_code', 500,
                                              'may_have_been_delivered', false), tried_at
        FROM tried)
    INSERT INTO execution_logs (log_id, execution_id, attempt_number, level, message, logged_at)
    SELECT {id_of("log", "tried_at")}, execution_id, number, 'WARN', 'attempt ' || number || ' of 3 failed: HTTP_ERROR',
           tried_at
      FROM tried
    """
)

_FUTURE = text(
    f"""
    WITH portion AS MATERIALIZED (
      SELECT n, {_CREATED} AS created_at
        FROM generate_series(CAST(:first AS BIGINT), CAST(:last AS BIGINT)) AS n),
    made AS MATERIALIZED (
      SELECT n, now() + INTERVAL '1 day' + random() * INTERVAL '30 days' AS due_at,
             'history-' || n % {COMMON_ENDPOINTS} AS endpoint, {_JOB}
        FROM portion),
    job AS ({_INSERT_JOBS}
      SELECT own_job_id, endpoint, 1, 'HTTP', 'DELAYED', 'ACTIVE', own_key, name, labels,
             jsonb_build_object('user_id', 'u_' || user_id), 3, due_at, created_at, NULL
        FROM made)
    {_INSERT_EXECUTIONS}
    SELECT execution_id, own_job_id, endpoint, 1, 'HTTP', 'http', n % :shards, own_key, 'PENDING', NULL, 0, 3, NULL,
           due_at, due_at, NULL, NULL, NULL, NULL, created_at, NULL
      FROM made
    """
)


def build(url: str, finished: int = 5_000_000, future: int = 1_000_000, *, shards: int = 1) -> None:
    """Fill a migrated database with executions finished within 29 days, and executions due from tomorrow on."""
    began = time.monotonic()
    with create_engine(database_url(url), isolation_level="AUTOCOMMIT").connect() as connection:
        connection.execute(text("SET synchronous_commit = off"))
        names = [f"history-{n}" for n in range(COMMON_ENDPOINTS)] + [RARE_ENDPOINT, UNUSED_ENDPOINT]
        connection.execute(_ENDPOINTS, {"names": names})
        shared = _shared(connection, shards)
        connection.execute(_CRON_JOB, shared)
        for portion in range(PORTIONS):
            _add(connection, _FINISHED, finished, portion, shared)
            _add(connection, _FUTURE, future, portion, shared)
            if (portion + 1) % (PORTIONS // 10) == 0:
                print(f"{(portion + 1) * 100 // PORTIONS} % after {time.monotonic() - began:.0f} s", flush=True)
        connection.execute(text("VACUUM ANALYZE"))
    print(f"vacuumed and analysed after {time.monotonic() - began:.0f} s", flush=True)


def _shared(connection: Connection, shards: int) -> dict[str, object]:
    """Return the parameters shared by all portions."""
    start = connection.execute(text("SELECT now() - :days * INTERVAL '1 day'"), {"days": DAYS}).scalar_one()
    # The executions of the cron job have another endpoint.
    rare = RARE_EXECUTIONS * CRON_JOB_SHARE // (CRON_JOB_SHARE - 1)
    common = {"start": start, "days": DAYS, "rare": rare, "shards": shards}
    return common | {"cron_job": ids.job_id(), "worker": ids.worker_id()}


def _add(connection: Connection, statement: object, total: int, portion: int, shared: dict[str, object]) -> None:
    first, last = total * portion // PORTIONS + 1, total * (portion + 1) // PORTIONS
    if last >= first:
        step = timedelta(days=DAYS) / total
        connection.execute(statement, shared | {"first": first, "last": last, "step": step})  # type: ignore[call-overload]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.history", description=__doc__)
    parser.add_argument("url", help="URL of a migrated PostgreSQL database")
    parser.add_argument("--finished", type=int, default=5_000_000, help="finished executions")
    parser.add_argument("--future", type=int, default=1_000_000, help="delayed executions")
    parser.add_argument("--shards", type=int, default=1, help="TE_QUEUE_SHARDS of the processes that will serve it")
    options = parser.parse_args()
    build(options.url, options.finished, options.future, shards=options.shards)


if __name__ == "__main__":
    main()
