"""The endpoint's `keep_response` decides, for each transport, which text of a receiver's answer is stored."""

import json
from typing import Any

import pytest
from redis import Redis
from sqlalchemy import text

import tests.worker_environment  # noqa: F401 - first
from actors.deliver import Deliveries
from actors.loop import DeliveryLoop
from app.dev.receiver import Receiver
from app.dev.servers.valkey import Valkey
from app.kernel.db import Database
from brokers.worker_process import WorkerProcess
from schema.states import EndpointType
from tests import rows
from tests.contract.broker.delivering import catalog_of, claimed
from tests.waiting import eventually

ANSWER_TEXT = "words-of-the-receiver"


class Delivery:
    """One delivery, and all rows that it stored."""

    def __init__(self, database: Database, process: WorkerProcess, loop: DeliveryLoop) -> None:
        self._database, self._process, self._loop = database, process, loop

    def rows_with(self, keep: str, type_: EndpointType, spec: dict[str, Any]) -> tuple[Any, Any, str]:
        """Deliver once; return the output and the error of the attempt, and all stored rows as one text."""
        rows.add_endpoint(self._database, "kept", type_=type_, spec=spec)
        self._database.fetch(text("UPDATE endpoint_versions SET keep_response = :keep"), {"keep": keep})
        (execution_id,) = rows.add_executions(self._database, endpoint="kept", type_=type_)
        attempt = claimed(self._process, type_.value.lower())
        Deliveries(catalog_of(self._database), self._loop, self._database, self._process).start([attempt])
        eventually(lambda: rows.execution(self._database, execution_id).status != "RUNNING")
        (tried,) = rows.attempts(self._database, execution_id)
        log = self._database.fetch(text("SELECT message FROM execution_logs"))
        execution = rows.execution(self._database, execution_id)
        assert execution.output == tried.output
        return tried.output, tried.error, f"{tuple(tried)} {tuple(execution)} {log}"


@pytest.fixture
def delivery(database: Database, process: WorkerProcess, loop: DeliveryLoop) -> Delivery:
    return Delivery(database, process, loop)


@pytest.mark.parametrize(("keep", "is_kept"), [("always", True), ("on_error", False), ("never", False)])
def test_answer_of_a_success_is_stored_by_keep_response(
    delivery: Delivery, receiver: Receiver, keep: str, is_kept: bool
) -> None:
    spec = {"url": receiver.url("/echo/kept"), "method": "POST", "body_template": ANSWER_TEXT}
    output, error, stored_text = delivery.rows_with(keep, EndpointType.HTTP, spec)
    assert error is None
    assert output["status_code"] == 200
    assert (ANSWER_TEXT in stored_text) is is_kept
    assert set(output) == {"status_code", "body" if is_kept else "body_bytes"}
    if not is_kept:
        assert output["body_bytes"] > len(ANSWER_TEXT)


@pytest.mark.parametrize(("keep", "is_kept"), [("always", True), ("on_error", True), ("never", False)])
def test_answer_of_a_failure_is_stored_by_keep_response(
    delivery: Delivery, receiver: Receiver, keep: str, is_kept: bool
) -> None:
    spec = {"url": receiver.url("/echo/kept"), "body_template": ANSWER_TEXT, "expected_status_codes": [299]}
    output, error, stored_text = delivery.rows_with(keep, EndpointType.HTTP, spec)
    assert output is None
    assert error["status_code"] == 200
    assert (ANSWER_TEXT in stored_text) is is_kept
    assert ("body" in error, "body_bytes" in error) == (is_kept, not is_kept)


@pytest.mark.parametrize(("keep", "is_kept"), [("always", True), ("on_error", True), ("never", False)])
def test_error_text_of_redis_is_stored_by_keep_response(
    delivery: Delivery, valkey: Valkey, keep: str, is_kept: bool
) -> None:
    with Redis.from_url(valkey.url) as client:
        client.set("kept", "a string")
        spec = {"redis_url": valkey.url, "stream": "kept", "fields_template": {"a": "1"}}
        _, error, stored_text = delivery.rows_with(keep, EndpointType.REDIS_STREAM, spec)
        client.delete("kept")
    assert error["type"] == "STREAM_ERROR"
    assert error["message"].startswith("Redis answered with an error")
    assert ("WRONGTYPE" in stored_text) is is_kept


@pytest.mark.parametrize(("keep", "is_kept"), [("always", True), ("on_error", True), ("never", False)])
def test_error_text_of_librdkafka_is_stored_by_keep_response(delivery: Delivery, keep: str, is_kept: bool) -> None:
    spec = {"bootstrap_servers": "127.0.0.1:1", "topic": "t", "value_template": "v", "timeout_ms": 1500}
    _, error, stored_text = delivery.rows_with(keep, EndpointType.KAFKA, spec)
    assert error["type"] == "TIMEOUT"
    assert ("127.0.0.1" in stored_text) is is_kept
    assert json.dumps(error).count("no confirmation came within 1500 ms") == 1


@pytest.mark.parametrize("keep", ["always", "on_error", "never"])
def test_id_of_a_stream_entry_is_always_stored(delivery: Delivery, valkey: Valkey, keep: str) -> None:
    spec = {"redis_url": valkey.url, "stream": "placed", "fields_template": {"a": "1"}}
    output, _, _ = delivery.rows_with(keep, EndpointType.REDIS_STREAM, spec)
    assert set(output) == {"message_id", "stream"}
