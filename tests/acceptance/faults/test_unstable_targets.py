"""Targets that restart or fail at times: every execution is delivered, on Redis exactly once."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from confluent_kafka import Consumer, TopicPartition
from sqlalchemy import text

from app.dev.receiver import Receiver
from app.dev.servers import Tansu, Valkey
from app.dev.stack.runner import Stack
from app.kernel.db import Database
from schema.states import EndpointType
from tests import rows
from tests.contract.dispatch.lossy import LossyProxy
from tests.servers import start_or_skip
from tests.waiting import HUNG_SECONDS, eventually

pytestmark = pytest.mark.acceptance

# Enough for the slowest restart: 100 attempts take 50 s.
MAX_ATTEMPTS = 100
RETRIES = {"max_attempts": MAX_ATTEMPTS, "backoff": "fixed", "initial_delay_ms": 500}
TOPIC = "unstable"


@pytest.fixture
def durable_valkey() -> Iterator[Valkey]:
    """Valkey that writes each command to disk before the response, so that a kill loses nothing."""
    with start_or_skip(Valkey("always")) as server:
        yield server


@pytest.fixture
def own_kafka() -> Iterator[Tansu]:
    """A broker that the test kills; the broker keeps its records in memory only."""
    with start_or_skip(Tansu()) as server:
        server.create_topic(TOPIC)
        yield server


def open_shortly(database: Database) -> None:
    """Let an open breaker probe after one second instead of the default of 30 s."""
    database.fetch(text("UPDATE endpoints SET breaker = CAST(:b AS JSONB) RETURNING 1"), {"b": '{"open_for": "1s"}'})


def wait_for_successes(database: Database, count: int, timeout: float = 120) -> None:
    eventually(lambda: rows.statuses(database) == {"SUCCESS": count}, timeout=timeout, what=f"{count} successes")


def failures(database: Database) -> Counter[str]:
    """Count failed attempts by error type."""
    return Counter(row.kind for row in database.fetch(text("SELECT error->>'type' AS kind FROM attempts")) if row.kind)


def test_redis_restart_during_deliveries_appends_each_entry_once(
    database: Database, stack: Stack, durable_valkey: Valkey
) -> None:
    """Redis is killed between an append and its response, so the retry finds the entry only by its marker."""
    fields = {"stream": "s", "fields_template": {"n": "{{input.n}}"}, "timeout_ms": 1000}
    type_ = EndpointType.REDIS_STREAM

    def add(numbers: range) -> None:
        for number in numbers:
            rows.add_executions(database, 1, type_=type_, max_attempts=MAX_ATTEMPTS, input_={"n": str(number)})

    with redis.Redis.from_url(durable_valkey.url) as client, LossyProxy(durable_valkey.port) as proxy:
        spec = fields | {"redis_url": f"redis://127.0.0.1:{proxy.port}"}
        rows.add_endpoint(database, type_=type_, spec=spec, retry_policy=RETRIES)
        open_shortly(database)
        stack.worker(TE_WORKER_MAX_CONCURRENT="5")
        add(range(300))
        eventually(lambda: client.xlen("s") > 20)
        proxy.loses = True
        length_before = client.xlen("s")
        add(range(300, 600))
        eventually(lambda: client.xlen("s") > length_before, what="an entry whose response is lost")
        durable_valkey.kill()
        proxy.loses = False
        eventually(lambda: failures(database)["CONNECTION_ERROR"] > 0)
        durable_valkey.start()
        wait_for_successes(database, 600)
        numbers = Counter(fields[b"n"] for _, fields in entries(client))
    assert numbers == Counter(str(number).encode() for number in range(600))
    assert set(failures(database)) <= {"CONNECTION_ERROR", "TIMEOUT"}


def entries(client: Any) -> list[Any]:
    found: list[Any] = client.xrange("s")
    return found


def test_records_are_delivered_after_a_restart_of_kafka(
    database: Database, stack: Stack, own_kafka: Tansu, receiver: Receiver
) -> None:
    """Deliveries to another target continue during the outage."""
    spec = {"bootstrap_servers": own_kafka.bootstrap, "topic": TOPIC, "value_template": {}, "timeout_ms": 1500}
    type_ = EndpointType.KAFKA
    rows.add_endpoint(database, type_=type_, spec=spec, retry_policy=RETRIES)
    rows.add_endpoint(database, "other", spec={"url": f"{receiver.base_url}/ok/beside-kafka", "method": "POST"})
    open_shortly(database)
    worker = stack.worker()
    rows.add_executions(database, 20, type_=type_, max_attempts=MAX_ATTEMPTS)
    wait_for_successes(database, 20)
    own_kafka.kill()
    after = rows.add_executions(database, 20, type_=type_, max_attempts=MAX_ATTEMPTS)
    eventually(lambda: sum(failures(database).values()) >= 20, what="failed attempts")
    rows.add_executions(database, 10, endpoint="other")
    receiver.wait_for(10, path="/ok/beside-kafka")
    own_kafka.start()
    own_kafka.create_topic(TOPIC)
    wait_for_successes(database, 50)
    assert set(failures(database)) <= {"TIMEOUT", "BROKER_ERROR"}
    assert keys_in(own_kafka, len(after)) == set(after)
    assert worker.is_running, "the worker ended because the restarted broker does not know its producer"


def keys_in(broker: Tansu, count: int) -> set[str]:
    """Read `count` different keys, because the end offset of the broker can be behind the log."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    keys: set[str] = set()
    while len(keys) < count:
        record = consumer.poll(HUNG_SECONDS)
        assert record is not None, f"{len(keys)} of {count} records"
        if record.error() is None:
            keys.add(dict(record.headers() or [])["te-idempotency-key"].decode())
    consumer.close()
    return keys


def test_randomly_failing_target_gets_every_execution(database: Database, stack: Stack, receiver: Receiver) -> None:
    path = "/one-in/3/random"
    spec = {"url": f"{receiver.base_url}{path}", "method": "POST"}
    rows.add_endpoint(database, spec=spec, retry_policy=RETRIES | {"initial_delay_ms": 50})
    stack.worker()
    executions = rows.add_executions(database, 300, max_attempts=MAX_ATTEMPTS)
    wait_for_successes(database, 300)
    sent = Counter(request.idempotency_key for request in receiver.wait_for(0, path=path))
    for execution_id in executions:
        *failed, last = rows.attempts(database, execution_id)
        assert [attempt.attempt_number for attempt in (*failed, last)] == list(range(1, sent[execution_id] + 1))
        assert {(attempt.error["type"], attempt.error["status_code"]) for attempt in failed} <= {("HTTP_ERROR", 503)}
        assert last.status == "SUCCESS"
    assert 0.2 < failures(database).total() / sent.total() < 0.47
