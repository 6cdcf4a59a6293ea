"""Log lines: one per request and one per attempt, with searchable ids and without payload."""

import json
import logging
from typing import Any

import pytest

from app.kernel.log import JsonFormatter
from app.kernel.tracing.context import trace_of
from brokers.worker_process import WorkerProcess
from tests.contract.tracing.conftest import Deliver

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
BODY = {"trigger": "IMMEDIATE", "idempotency_key": "line", "input": {"card": "4111-1111"}}


def lines(caplog: pytest.LogCaptureFixture, logger: str) -> list[dict[str, Any]]:
    formatter = JsonFormatter()
    return [json.loads(formatter.format(record)) for record in caplog.records if record.name == logger]


@pytest.mark.parametrize("headers", [{"traceparent": PARENT}, {}], ids=["in a trace", "without a trace"])
def test_ids_lead_from_the_request_to_the_attempt(
    deliver: Deliver, process: WorkerProcess, caplog: pytest.LogCaptureFixture, headers: dict[str, str]
) -> None:
    with caplog.at_level(logging.INFO):
        (arrived,) = deliver(f"line-{len(headers)}", BODY, {"X-Request-ID": "mine", **headers})
    (line,) = [message for message in caplog.messages if "request_id=mine" in message]
    request = dict(part.split("=") for part in line.rpartition(", ")[2].split(" "))
    assert line.startswith("POST /jobs: 201 in ")
    assert request.get("trace_id") == (TRACE if headers else None)
    (attempt,) = lines(caplog, "brokers.attempt")
    execution_id = arrived["idempotency-key"]
    fields = ("execution_id", "job_id", "attempt", "worker_id", "outcome", "status_code", "trace_id")
    assert {name: attempt[name] for name in fields} == {
        "execution_id": execution_id,
        "job_id": request["job_id"],
        "attempt": 1,
        "worker_id": process.worker_id,
        "outcome": "SUCCESS",
        "status_code": 200,
        "trace_id": TRACE if headers else trace_of(execution_id).trace_id,
    }
    assert arrived["traceparent"].split("-")[1] == attempt["trace_id"]
    assert "4111" not in caplog.text
