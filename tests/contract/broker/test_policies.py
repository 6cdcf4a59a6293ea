"""Answers and errors that match an endpoint's retry policy, from the receiver to the stored rows."""

from typing import Any

import pytest
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.dev.receiver import Receiver
from app.kernel import ids
from app.kernel.db import Database
from app.kernel.db.paging import PageRequest
from app.queue.reading.execution_queries import get_execution
from app.queue.reading.explanation import explain
from app.queue.reading.log_lines import logs_of
from brokers.worker_process import WorkerProcess
from schema.states import EndpointType, ExecutionStatus
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of, claimed
from tests.waiting import eventually

OK_IS_TRUE = {"pointer": "/ok", "equals": True}


class Delivery:
    """One delivery under a retry policy, and the rows that it wrote."""

    def __init__(self, database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver) -> None:
        self._database, self._process, self._loop, self._receiver = database, process, loop, receiver

    def to(self, path: str, policy: dict[str, Any], *, keep: str = "always") -> tuple[Any, Any, Any]:
        """Deliver once; return the execution, its attempt and its log line."""
        spec = {"url": self._receiver.url(path), "method": "POST"}
        rows.add_endpoint(self._database, "named", spec=spec, retry_policy=policy)
        self._database.fetch(text("UPDATE endpoint_versions SET keep_response = :keep"), {"keep": keep})
        (execution_id,) = rows.add_executions(self._database, endpoint="named", max_attempts=3)
        Deliveries(catalog_of(self._database), self._loop, self._database, self._process).start(
            [claimed(self._process)]
        )
        eventually(lambda: rows.execution(self._database, execution_id).status != "RUNNING")
        (tried,) = rows.attempts(self._database, execution_id)
        (line,) = logs_of(self._database, execution_id, PageRequest()).items
        return rows.execution(self._database, execution_id), tried, line


@pytest.fixture
def delivery(database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver) -> Delivery:
    return Delivery(database, process, loop, receiver)


@pytest.mark.parametrize(
    ("path", "policy", "status", "type_"),
    [
        ("/status/503", {}, "RETRYING", "HTTP_ERROR"),
        ("/status/503", {"fail_on": [503], "ignore_on": ["5xx"]}, "FAILED", "HTTP_ERROR"),
        ("/status/422", {"fail_on": [{"pointer": "/status", "equals": 422}]}, "FAILED", "HTTP_ERROR"),
        ("/status/410", {"retry_on": ["4xx"]}, "RETRYING", "HTTP_ERROR"),
        ("/close", {"retry_on": ["5xx"]}, "FAILED", "CONNECTION_ERROR"),
        ("/ok", {"fail_on": [OK_IS_TRUE]}, "FAILED", "ANSWER_REFUSED"),
        ("/ok", {"retry_on": [OK_IS_TRUE | {"status": "2xx"}]}, "RETRYING", "ANSWER_REFUSED"),
        ("/ok", {"retry_on": [OK_IS_TRUE], "ignore_on": [OK_IS_TRUE]}, "SUCCESS", None),
    ],
)
def test_policy_decides_the_status(
    delivery: Delivery, path: str, policy: dict[str, Any], status: str, type_: str | None
) -> None:
    execution, tried, _ = delivery.to(path, policy)
    assert (execution.status, (tried.error or {}).get("type")) == (status, type_)
    if status != "SUCCESS":
        assert tried.error["retryable"] is (status == "RETRYING")
    if type_ == "ANSWER_REFUSED":
        assert (tried.error["status_code"], tried.error["body"]) == (200, '{"ok": true}')


def test_ignored_error_is_a_success_that_keeps_the_error(database: Database, delivery: Delivery) -> None:
    execution, tried, line = delivery.to("/status/503", {"ignore_on": ["5xx"]})
    assert (execution.status, tried.status, line.level) == ("SUCCESS", "SUCCESS", "WARN")
    assert execution.output == tried.output == tried.output | {"status_code": 503, "body": '{"status": 503}'}
    assert execution.output["ignored_error"] == tried.error
    assert rows.job_of(database, execution.execution_id).status == "RETIRED"
    assert (get_execution(database, execution.execution_id).last_error or {})["type"] == "HTTP_ERROR"
    reclaim_every = execution.completed_at - execution.started_at
    explanation = explain(database, execution.execution_id, reclaim_every=reclaim_every, reasons=())
    assert explanation.status == ExecutionStatus.SUCCESS
    assert explanation.explanation.endswith("which its retry policy ignores.")


def test_rejected_answer_has_an_error_marked_as_rejected(delivery: Delivery) -> None:
    execution, tried, _ = delivery.to("/status/404", {"reject_on": [404], "ignore_on": ["4xx"]})
    assert (execution.status, tried.error["rejected"], tried.error["retryable"]) == ("FAILED", True, False)


def test_policy_reads_an_answer_that_is_not_stored(delivery: Delivery) -> None:
    execution, tried, _ = delivery.to("/ok", {"fail_on": [OK_IS_TRUE]}, keep="never")
    assert (execution.status, tried.error["type"], "body" in tried.error) == ("FAILED", "ANSWER_REFUSED", False)


@pytest.mark.parametrize(
    ("policy_attempts", "calls", "channel_attempts"),
    [
        pytest.param(3, [1, 3, 1], [[None] * 3, [1, None, 1], [1, None, 1]], id="automatic"),
        # A manual retry starts the attempts of the policy again. The endpoint may have other channels by then, so
        # the first of these attempts sends to all channels.
        pytest.param(2, [2, 3, 2], [[None] * 3, [None] * 3, [2, None, 2]], id="manual after the first retry"),
    ],
)
def test_retry_sends_only_to_channels_that_have_not_accepted_the_message(
    policy_attempts: int,
    calls: list[int],
    channel_attempts: list[list[int | None]],
    database: Database,
    process: WorkerProcess,
    loop: DeliveryLoop,
    receiver: Receiver,
) -> None:
    job_id = ids.job_id()
    paths = [f"{path}/{job_id}" for path in ("/ok/a", "/flaky/2", "/ok/c")]
    urls = [receiver.url(path).replace("http", "json", 1) for path in paths]
    rows.add_endpoint(
        database,
        "people",
        type_=EndpointType.NOTIFICATION,
        spec={"url": urls, "title": "t", "body": "b"},
        retry_policy={"max_attempts": policy_attempts, "initial_delay_ms": 1, "max_delay_ms": 1},
    )
    (execution_id,) = rows.add_executions(database, endpoint="people", max_attempts=3)
    attempts = Attempts(process)  # the execution is in the queue `http`, although its transport is NOTIFICATION
    for number in range(1, 4):
        Deliveries(catalog_of(database), loop, database, process).start([attempts.next()])
        eventually(lambda number=number: len(rows.attempts(database, execution_id)) == number)
    assert rows.execution(database, execution_id).status == "SUCCESS"
    requested = [request.path for request in receiver.requests if job_id in request.path]
    assert [requested.count(path) for path in paths] == calls
    results = [attempt.error or attempt.output for attempt in rows.attempts(database, execution_id)]
    assert [[channel.get("attempt") for channel in result["channels"]] for result in results] == channel_attempts
    assert [result.get("may_have_been_delivered") for result in results] == [True, True, None]
