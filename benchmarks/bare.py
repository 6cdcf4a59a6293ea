"""Bare Flask for comparison: /nothing only answers, /insert and /bare-insert first write a job and its execution.

/insert writes into the product's tables with all their indexes, /bare-insert into two tables that have only a primary
key (`create_tables`). `gunicorn benchmarks.bare:app` runs with the settings of the product's server.
"""

import json
import os
import threading
from contextlib import closing
from typing import Any

import psycopg2
from flask import Flask, Response, request

from app.kernel import ids

app = Flask(__name__)
_local = threading.local()

_INSERT = """
WITH j AS (
  INSERT INTO {schema}.jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, idempotency_key, input,
                    max_attempts, run_at)
  VALUES (%(job)s, %(endpoint)s, 1, 'HTTP', 'DELAYED', %(key)s, %(input)s, 1, %(run_at)s) RETURNING job_id)
INSERT INTO {schema}.executions (execution_id, job_id, endpoint, endpoint_version, endpoint_type, queue, shard,
                        idempotency_key, status, max_attempts, run_at, scheduled_at)
SELECT %(execution)s, job_id, %(endpoint)s, 1, 'HTTP', 'http', 0, %(key)s, 'PENDING', 1, %(run_at)s, %(run_at)s FROM j
RETURNING created_at
"""
_BARE_TABLES = """
CREATE SCHEMA IF NOT EXISTS bare;
CREATE TABLE IF NOT EXISTS bare.jobs (
  job_id text PRIMARY KEY, endpoint text NOT NULL, endpoint_version int NOT NULL, endpoint_type text NOT NULL,
  trigger_type text NOT NULL, idempotency_key text NOT NULL, input jsonb NOT NULL, max_attempts int NOT NULL,
  run_at timestamptz NOT NULL);
CREATE TABLE IF NOT EXISTS bare.executions (
  execution_id text PRIMARY KEY, job_id text NOT NULL, endpoint text NOT NULL, endpoint_version int NOT NULL,
  endpoint_type text NOT NULL, queue text NOT NULL, shard int NOT NULL, idempotency_key text NOT NULL,
  status text NOT NULL, max_attempts int NOT NULL, run_at timestamptz NOT NULL, scheduled_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now());
"""


@app.post("/nothing")
def nothing() -> Response:
    """Read the body and send an answer as long as that of /insert."""
    return _answer(request.get_json(), ids.job_id(), ids.execution_id())


@app.post("/insert")
def insert() -> Response:
    """Write a job and its execution into the product's tables."""
    return _inserted("public")


@app.post("/bare-insert")
def bare_insert() -> Response:
    """Write a job and its execution into the bare tables."""
    return _inserted("bare")


def create_tables(database_url: str) -> None:
    """Create the bare tables beside those of the product."""
    with closing(psycopg2.connect(database_url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(_BARE_TABLES)


def _inserted(schema: str) -> Response:
    """Write a job and its execution in one statement and one commit."""
    body, job, execution = request.get_json(), ids.job_id(), ids.execution_id()
    connection = getattr(_local, "connection", None)
    if connection is None:
        connection = _local.connection = psycopg2.connect(os.environ["BENCH_DATABASE_URL"])
        connection.autocommit = True
    values = {
        "job": job,
        "execution": execution,
        "endpoint": body["endpoint"],
        "key": body["idempotency_key"],
        "input": json.dumps(body["input"]),
        "run_at": body["run_at"],
    }
    with connection.cursor() as cursor:
        cursor.execute(_INSERT.format(schema=schema), values)
        cursor.fetchone()
    return _answer(body, job, execution)


def _answer(body: dict[str, Any], job: str, execution: str) -> Response:
    text = json.dumps(body | {"job_id": job, "execution": {"execution_id": execution, "status": "PENDING"}})
    return Response(text, 201, content_type="application/json")
