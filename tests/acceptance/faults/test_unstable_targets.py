"""Targets that restart or fail now and then: every execution gets there in the end, on Redis exactly once."""

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

# Many enough for the slowest restart: 100 of them take 50 s.
MOST = 100
RETRIES = {"max_attempts": MOST, "backoff": "fixed", "initial_delay_ms": 500}
TOPIC = "unstable"


class DurableValkey(Valkey):
    """Writes each command to disk before it answers, as a Redis must that is to lose nothing."""

    def _command(self, port: int) -> list[str]:
        given = super()._command(port)
        given[given.index("--appendonly") + 1] = "yes"
        return [*given, "--appendfsync", "always"]


@pytest.fixture
def durable_valkey() -> Iterator[DurableValkey]:
    with start_or_skip(DurableValkey()) as server:
        yield server


@pytest.fixture
def own_kafka() -> Iterator[Tansu]:
    """A broker that this test may kill; it keeps nothing."""
    with start_or_skip(Tansu()) as server:
        server.create_topic(TOPIC)
        yield server


def open_shortly(database: Database) -> None:
    """Let a breaker that opens try again after a second, where half a minute is usual."""
    database.fetch(text("UPDATE endpoints SET breaker = CAST(:b AS JSONB) RETURNING 1"), {"b": '{"open_for": "1s"}'})


def all_end(database: Database, count: int, timeout: float = 120) -> None:
    eventually(lambda: rows.statuses(database) == {"SUCCESS": count}, timeout=timeout, what=f"{count} successes")


def failures(database: Database) -> Counter[str]:
    """Count failed attempts by their type of error."""
    return Counter(row.kind for row in database.fetch(text("SELECT error->>'type' AS kind FROM attempts")) if row.kind)


def test_redis_restarts_mid_stream_and_gets_each_entry_once(
    database: Database, stack: Stack, durable_valkey: DurableValkey
) -> None:
    """It dies between an append and its answer: of such an entry the retry knows by its note alone."""
    fields = {"stream": "s", "fields_template": {"n": "{{input.n}}"}, "timeout_ms": 1000}
    type_ = EndpointType.REDIS_STREAM

    def add(numbers: range) -> None:
        for number in numbers:
            rows.add_executions(database, 1, type_=type_, max_attempts=MOST, input_={"n": str(number)})

    with redis.Redis.from_url(durable_valkey.url) as client, LossyProxy(durable_valkey.port) as proxy:
        spec = fields | {"redis_url": f"redis://127.0.0.1:{proxy.port}"}
        rows.add_endpoint(database, type_=type_, spec=spec, retry_policy=RETRIES)
        open_shortly(database)
        stack.worker(TE_WORKER_MAX_CONCURRENT="5")
        add(range(300))
        eventually(lambda: client.xlen("s") > 20)
        proxy.loses = True
        answered = client.xlen("s")
        add(range(300, 600))
        eventually(lambda: client.xlen("s") > answered, what="an entry whose answer is lost")
        durable_valkey.kill()
        proxy.loses = False
        eventually(lambda: failures(database)["CONNECTION_ERROR"] > 0)
        durable_valkey.start()
        all_end(database, 600)
        numbers = Counter(fields[b"n"] for _, fields in entries(client))
    assert numbers == Counter(str(number).encode() for number in range(600))
    assert set(failures(database)) <= {"CONNECTION_ERROR", "TIMEOUT"}


def entries(client: Any) -> list[Any]:
    found: list[Any] = client.xrange("s")
    return found


def test_kafka_restarts_and_the_records_follow(
    database: Database, stack: Stack, own_kafka: Tansu, receiver: Receiver
) -> None:
    """Meanwhile another target gets its deliveries."""
    spec = {"bootstrap_servers": own_kafka.bootstrap, "topic": TOPIC, "value_template": {}, "timeout_ms": 1500}
    type_ = EndpointType.KAFKA
    rows.add_endpoint(database, type_=type_, spec=spec, retry_policy=RETRIES)
    rows.add_endpoint(database, "other", spec={"url": f"{receiver.base_url}/ok/beside-kafka", "method": "POST"})
    open_shortly(database)
    worker = stack.worker()
    rows.add_executions(database, 20, type_=type_, max_attempts=MOST)
    all_end(database, 20)
    own_kafka.kill()
    after = rows.add_executions(database, 20, type_=type_, max_attempts=MOST)
    eventually(lambda: sum(failures(database).values()) >= 20, what="failed attempts")
    rows.add_executions(database, 10, endpoint="other")
    receiver.wait_for(10, path="/ok/beside-kafka")
    own_kafka.start()
    own_kafka.create_topic(TOPIC)
    all_end(database, 50)
    assert set(failures(database)) <= {"TIMEOUT", "BROKER_ERROR"}
    assert keys_in(own_kafka, len(after)) == set(after)
    assert worker.is_running, "the broker forgot our producer, which is an error of one target"


def keys_in(broker: Tansu, count: int) -> set[str]:
    """Read that many keys; what the broker calls the end of its log may be behind."""
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


def test_one_request_in_three_fails_at_random(database: Database, stack: Stack, receiver: Receiver) -> None:
    path = "/one-in/3/random"
    spec = {"url": f"{receiver.base_url}{path}", "method": "POST"}
    rows.add_endpoint(database, spec=spec, retry_policy=RETRIES | {"initial_delay_ms": 50})
    stack.worker()
    executions = rows.add_executions(database, 300, max_attempts=MOST)
    all_end(database, 300)
    sent = Counter(request.idempotency_key for request in receiver.wait_for(0, path=path))
    for execution_id in executions:
        *failed, last = rows.attempts(database, execution_id)
        assert [attempt.attempt_number for attempt in (*failed, last)] == list(range(1, sent[execution_id] + 1))
        assert {(attempt.error["type"], attempt.error["status_code"]) for attempt in failed} <= {("HTTP_ERROR", 503)}
        assert last.status == "SUCCESS"
    assert 0.2 < failures(database).total() / sent.total() < 0.47
