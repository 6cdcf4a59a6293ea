"""Bare Flask for comparison: /nothing only answers, /insert first writes a job and its execution.

`gunicorn benchmarks.bare:app` runs with the settings of the product's server, on its tables and indexes.
"""

import json
import os
import threading
from typing import Any

import psycopg2
from flask import Flask, Response, request

from app.kernel import ids

app = Flask(__name__)
_local = threading.local()

_INSERT = """
WITH j AS (
  INSERT INTO jobs (job_id, endpoint, endpoint_version, endpoint_type, trigger_type, idempotency_key, input,
                    max_attempts, run_at)
  VALUES (%(job)s, %(endpoint)s, 1, 'HTTP', 'DELAYED', %(key)s, %(input)s, 1, %(run_at)s) RETURNING job_id)
INSERT INTO executions (execution_id, job_id, endpoint, endpoint_version, endpoint_type, queue, shard,
                        idempotency_key, status, max_attempts, run_at, scheduled_at)
SELECT %(execution)s, job_id, %(endpoint)s, 1, 'HTTP', 'http', 0, %(key)s, 'PENDING', 1, %(run_at)s, %(run_at)s FROM j
RETURNING created_at
"""


@app.post("/nothing")
def nothing() -> Response:
    """Read the body and send an answer as long as that of /insert."""
    return _answer(request.get_json(), ids.job_id(), ids.execution_id())


@app.post("/insert")
def insert() -> Response:
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
        cursor.execute(_INSERT, values)
        cursor.fetchone()
    return _answer(body, job, execution)


def _answer(body: dict[str, Any], job: str, execution: str) -> Response:
    text = json.dumps(body | {"job_id": job, "execution": {"execution_id": execution, "status": "PENDING"}})
    return Response(text, 201, content_type="application/json")
