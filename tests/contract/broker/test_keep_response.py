"""What is stored of a receiver's words: as the endpoint's `keep_response` has it, whatever the transport."""

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

WORDS = "words-of-the-receiver"


class Stored:
    """Delivers to an endpoint, and reads all that was stored of it."""

    def __init__(self, database: Database, process: WorkerProcess, loop: DeliveryLoop) -> None:
        self._database, self._process, self._loop = database, process, loop

    def after(self, keep: str, type_: EndpointType, spec: dict[str, Any]) -> tuple[Any, Any, str]:
        """Return output and error of the one attempt, and everything as one text."""
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
def stored(database: Database, process: WorkerProcess, loop: DeliveryLoop) -> Stored:
    return Stored(database, process, loop)


@pytest.mark.parametrize(("keep", "is_kept"), [("always", True), ("on_error", False), ("never", False)])
def test_the_answer_to_a_success(stored: Stored, receiver: Receiver, keep: str, is_kept: bool) -> None:
    spec = {"url": receiver.url("/echo/kept"), "method": "POST", "body_template": WORDS}
    output, error, everything = stored.after(keep, EndpointType.HTTP, spec)
    assert error is None
    assert output["status_code"] == 200
    assert (WORDS in everything) is is_kept
    assert set(output) == {"status_code", "body" if is_kept else "body_bytes"}
    if not is_kept:
        assert output["body_bytes"] > len(WORDS)


@pytest.mark.parametrize(("keep", "is_kept"), [("always", True), ("on_error", True), ("never", False)])
def test_the_answer_to_a_failure(stored: Stored, receiver: Receiver, keep: str, is_kept: bool) -> None:
    spec = {"url": receiver.url("/echo/kept"), "body_template": WORDS, "expected_status_codes": [299]}
    output, error, everything = stored.after(keep, EndpointType.HTTP, spec)
    assert output is None
    assert error["status_code"] == 200
    assert (WORDS in everything) is is_kept
    assert ("body" in error, "body_bytes" in error) == (is_kept, not is_kept)


@pytest.mark.parametrize(("keep", "is_kept"), [("always", True), ("on_error", True), ("never", False)])
def test_what_a_redis_says_of_a_failure(stored: Stored, valkey: Valkey, keep: str, is_kept: bool) -> None:
    with Redis.from_url(valkey.url) as client:
        client.set("kept", "a string")
        spec = {"redis_url": valkey.url, "stream": "kept", "fields_template": {"a": "1"}}
        _, error, everything = stored.after(keep, EndpointType.REDIS_STREAM, spec)
        client.delete("kept")
    assert error["type"] == "STREAM_ERROR"
    assert error["message"].startswith("Redis answered with an error")
    assert ("WRONGTYPE" in everything) is is_kept


@pytest.mark.parametrize(("keep", "is_kept"), [("always", True), ("on_error", True), ("never", False)])
def test_what_librdkafka_says_of_a_failure(stored: Stored, keep: str, is_kept: bool) -> None:
    spec = {"bootstrap_servers": "127.0.0.1:1", "topic": "t", "value_template": "v", "timeout_ms": 1500}
    _, error, everything = stored.after(keep, EndpointType.KAFKA, spec)
    assert error["type"] == "TIMEOUT"
    assert ("127.0.0.1" in everything) is is_kept
    assert json.dumps(error).count("no confirmation came within 1500 ms") == 1


@pytest.mark.parametrize("keep", ["always", "on_error", "never"])
def test_the_place_of_an_entry_is_no_word_of_the_receiver(stored: Stored, valkey: Valkey, keep: str) -> None:
    spec = {"redis_url": valkey.url, "stream": "placed", "fields_template": {"a": "1"}}
    output, _, _ = stored.after(keep, EndpointType.REDIS_STREAM, spec)
    assert set(output) == {"message_id", "stream"}
