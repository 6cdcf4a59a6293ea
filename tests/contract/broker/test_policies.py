"""What becomes of an answer or an error that an endpoint's retry policy names, from the receiver to the tables."""

from typing import Any

import pytest
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.dev.receiver import Receiver
from app.kernel import ids
from app.kernel.db import Database
from app.queue.reading.execution_queries import get_execution
from app.queue.reading.explanation import explain
from brokers.worker_process import WorkerProcess
from schema.states import EndpointType, ExecutionStatus
from tests import rows
from tests.contract.broker.delivering import Attempts, catalog_of, claimed
from tests.waiting import eventually

SAYS_OK = {"pointer": "/ok", "equals": True}


class Delivered:
    """Delivers once by a policy, and reads what was written."""

    def __init__(self, database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver) -> None:
        self._database, self._process, self._loop, self._receiver = database, process, loop, receiver

    def to(self, path: str, policy: dict[str, Any], *, keep: str = "always") -> tuple[Any, Any, Any]:
        """Return the execution, its attempt and the line of its log."""
        spec = {"url": self._receiver.url(path), "method": "POST"}
        rows.add_endpoint(self._database, "named", spec=spec, retry_policy=policy)
        self._database.fetch(text("UPDATE endpoint_versions SET keep_response = :keep"), {"keep": keep})
        (execution_id,) = rows.add_executions(self._database, endpoint="named", max_attempts=3)
        Deliveries(catalog_of(self._database), self._loop, self._database, self._process).start(
            [claimed(self._process)]
        )
        eventually(lambda: rows.execution(self._database, execution_id).status != "RUNNING")
        (tried,) = rows.attempts(self._database, execution_id)
        (line,) = self._database.fetch(text("SELECT * FROM execution_logs"))
        return rows.execution(self._database, execution_id), tried, line


@pytest.fixture
def delivered(database: Database, process: WorkerProcess, loop: DeliveryLoop, receiver: Receiver) -> Delivered:
    return Delivered(database, process, loop, receiver)


@pytest.mark.parametrize(
    ("path", "policy", "status", "type_"),
    [
        ("/status/503", {}, "RETRYING", "HTTP_ERROR"),
        ("/status/503", {"fail_on": [503], "ignore_on": ["5xx"]}, "FAILED", "HTTP_ERROR"),
        ("/status/422", {"fail_on": [{"pointer": "/status", "equals": 422}]}, "FAILED", "HTTP_ERROR"),
        ("/status/410", {"retry_on": ["4xx"]}, "RETRYING", "HTTP_ERROR"),
        ("/close", {"retry_on": ["5xx"]}, "FAILED", "CONNECTION_ERROR"),
        ("/ok", {"fail_on": [SAYS_OK]}, "FAILED", "ANSWER_REFUSED"),
        ("/ok", {"retry_on": [SAYS_OK | {"status": "2xx"}]}, "RETRYING", "ANSWER_REFUSED"),
        ("/ok", {"retry_on": [SAYS_OK], "ignore_on": [SAYS_OK]}, "SUCCESS", None),
    ],
)
def test_what_follows(delivered: Delivered, path: str, policy: dict[str, Any], status: str, type_: str | None) -> None:
    execution, tried, _ = delivered.to(path, policy)
    assert (execution.status, (tried.error or {}).get("type")) == (status, type_)
    if status != "SUCCESS":
        assert tried.error["retryable"] is (status == "RETRYING")
    if type_ == "ANSWER_REFUSED":
        assert (tried.error["status_code"], tried.error["body"]) == (200, '{"ok": true}')


def test_what_is_ignored_is_a_success_with_its_error(database: Database, delivered: Delivered) -> None:
    execution, tried, line = delivered.to("/status/503", {"ignore_on": ["5xx"]})
    assert (execution.status, tried.status, line.level) == ("SUCCESS", "SUCCESS", "WARN")
    assert execution.output == tried.output == tried.output | {"status_code": 503, "body": '{"status": 503}'}
    assert execution.output["ignored_error"] == tried.error
    assert rows.job_of(database, execution.execution_id).status == "RETIRED"
    assert (get_execution(database, execution.execution_id).last_error or {})["type"] == "HTTP_ERROR"
    reclaim_every = execution.completed_at - execution.started_at
    told = explain(database, execution.execution_id, reclaim_every=reclaim_every, reasons=())
    assert (told.status, told.explanation.endswith("which its retry policy ignores.")) == (
        ExecutionStatus.SUCCESS,
        True,
    )


def test_what_is_rejected_says_so(delivered: Delivered) -> None:
    execution, tried, _ = delivered.to("/status/404", {"reject_on": [404], "ignore_on": ["4xx"]})
    assert (execution.status, tried.error["rejected"], tried.error["retryable"]) == ("FAILED", True, False)


def test_an_answer_is_looked_at_before_it_is_dropped(delivered: Delivered) -> None:
    execution, tried, _ = delivered.to("/ok", {"fail_on": [SAYS_OK]}, keep="never")
    assert (execution.status, tried.error["type"], "body" in tried.error) == ("FAILED", "ANSWER_REFUSED", False)


@pytest.mark.parametrize(
    ("policy_attempts", "calls", "told_at"),
    [
        pytest.param(3, [1, 3, 1], [[None] * 3, [1, None, 1], [1, None, 1]], id="by itself"),
        # A manual retry allows as many as the policy has: its first one may meet other channels, and tells all.
        pytest.param(2, [2, 3, 2], [[None] * 3, [None] * 3, [2, None, 2]], id="by hand after the first"),
    ],
)
def test_a_retry_sends_to_the_channels_that_have_not_taken_the_message(
    policy_attempts: int,
    calls: list[int],
    told_at: list[list[int | None]],
    database: Database,
    process: WorkerProcess,
    loop: DeliveryLoop,
    receiver: Receiver,
) -> None:
    own = ids.job_id()
    paths = [f"{path}/{own}" for path in ("/ok/a", "/flaky/2", "/ok/c")]
    urls = [receiver.url(path).replace("http", "json", 1) for path in paths]
    rows.add_endpoint(
        database,
        "people",
        type_=EndpointType.NOTIFICATION,
        spec={"url": urls, "title": "t", "body": "b"},
        retry_policy={"max_attempts": policy_attempts, "initial_delay_ms": 1, "max_delay_ms": 1},
    )
    (execution_id,) = rows.add_executions(database, endpoint="people", max_attempts=3)
    attempts = Attempts(process)  # of its queue, whose name says nothing of the transport
    for number in range(1, 4):
        Deliveries(catalog_of(database), loop, database, process).start([attempts.next()])
        eventually(lambda number=number: len(rows.attempts(database, execution_id)) == number)
    assert rows.execution(database, execution_id).status == "SUCCESS"
    asked = [request.path for request in receiver.requests if own in request.path]
    assert [asked.count(path) for path in paths] == calls
    told = [each.error or each.output for each in rows.attempts(database, execution_id)]
    assert [[one.get("attempt") for one in each["channels"]] for each in told] == told_at
    assert [each.get("may_have_been_delivered") for each in told] == [True, True, None]
