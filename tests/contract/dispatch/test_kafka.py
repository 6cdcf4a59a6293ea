"""Kafka deliveries to two brokers that speak the protocol: Tansu, and librdkafka's own mock cluster."""

import asyncio
import dataclasses
import json
import logging
import os
import signal
import socket
import threading
import time
import uuid

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.base import NO_SECRETS
from actors.dispatch.egress import EgressGuard
from actors.dispatch.kafka import KafkaDispatcher, log_scrubbers
from actors.dispatch.kafka_producer import LibrdkafkaLog, SharedProducer
from app.catalog.scrub import Scrubber
from app.dev.servers import Tansu
from schema.states import EndpointType
from tests.contract.dispatch.dispatching import OPEN, TRACEPARENT, Opening, failure, identity, rendered, run
from tests.contract.dispatch.hostile_kafka import HostileKafka
from tests.contract.dispatch.lossy import LossyProxy
from tests.waiting import HUNG_SECONDS

silent = logging.getLogger("te-test-kafka")
silent.addHandler(logging.NullHandler())
silent.propagate = False


@pytest.fixture(scope="module")
def mock_cluster():
    """The brokers inside a librdkafka client; they live as long as it does."""
    client = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0}, logger=silent)
    (broker,) = client.list_topics(timeout=60).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del client


@pytest.fixture(params=["tansu", "mock"])
def bootstrap(request):
    if request.param == "tansu":
        return request.getfixturevalue("kafka").bootstrap
    return request.getfixturevalue("mock_cluster")


@pytest.fixture
def topic(kafka):
    name = f"t-{uuid.uuid4().hex}"
    kafka.create_topic(name)
    return name


def dispatcher(guard=OPEN):
    return Opening(KafkaDispatcher, guard)


def spec(bootstrap, topic="t", **fields):
    values = {"bootstrap_servers": bootstrap, "topic": topic, "value_template": {"a": 1}, **fields}
    return rendered(EndpointType.KAFKA, values)


def send(bootstrap, topic="t", who=None, **fields):
    return run(dispatcher(), lambda kafka: kafka.send(spec(bootstrap, topic, **fields), who or identity()))


def fail(bootstrap, topic="t", *, guard=OPEN, **fields):
    return run(dispatcher(guard), lambda kafka: failure(kafka, spec(bootstrap, topic, **fields)))


def read(bootstrap, topic, count):
    """Read that many records of partition 0; consumer groups hang on Tansu, so without one."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}, logger=silent
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    records, deadline = [], time.monotonic() + HUNG_SECONDS
    while len(records) < count and time.monotonic() < deadline:
        record = consumer.poll(1)
        if record is not None and record.error() is None:
            records.append(record)
    consumer.close()
    assert len(records) == count
    return records


# what is produced


def test_a_record_has_key_value_headers_and_identity(kafka, topic):
    headers = {"ce-type": "order.é", "": "empty"}
    output = send(
        kafka.bootstrap,
        topic,
        identity(attempt=2),
        key_template="k1",
        value_template={"ä": [1, 2.5, None]},
        headers=headers,
    )
    assert output == {"partition": 0, "offset": 0}
    (record,) = read(kafka.bootstrap, topic, 1)
    assert (record.key(), json.loads(record.value())) == (b"k1", {"ä": [1, 2.5, None]})
    assert dict(record.headers()) == {
        "ce-type": "order.é".encode(),
        "": b"empty",
        "te-idempotency-key": b"exec_1",
        "te-job-id": b"job_1",
        "te-execution-id": b"exec_1",
        "te-attempt": b"2",
        "te-scheduled-at": b"2026-03-15T10:00:00.123Z",
        "traceparent": TRACEPARENT.encode(),
    }


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ({}, None, b'{"a":1}'),
        ({"key_template": None, "value_template": None}, None, None),
        ({"key_template": "", "value_template": ""}, b"", b'""'),
        ({"key_template": "k", "value_template": "text"}, b"k", b'"text"'),
        ({"key_template": 7, "value_template": [1]}, b"7", b"[1]"),
        ({"key_template": {"é": True}, "value_template": 0}, '{"é":true}'.encode(), b"0"),
    ],
)
def test_keys_and_values(kafka, topic, given, key, value):
    raw = spec(kafka.bootstrap, topic) | given
    run(dispatcher(), lambda producers: producers.send(raw, identity()))
    (record,) = read(kafka.bootstrap, topic, 1)
    assert (record.key(), record.value()) == (key, value)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_on_every_broker(bootstrap, acks):
    output = send(bootstrap, f"acks-{acks}", acks=acks)
    assert isinstance(output["partition"], int)
    assert isinstance(output["offset"], int) is (acks != "0")


def test_one_producer_is_shared(kafka, topic):
    async def main(producers):
        before = threading.active_count()
        one = spec(kafka.bootstrap, topic)
        outputs = await asyncio.gather(*(producers.send(one, identity(f"exec_{n}")) for n in range(200)))
        return threading.active_count() - before, {output["offset"] for output in outputs}

    threads, offsets = run(dispatcher(), main)
    assert offsets == set(range(200))
    assert threads <= 2  # the producer's, and one for the name


@pytest.mark.parametrize("timeout_ms", [1200, 2300])
def test_the_first_record_of_a_producer_comes_within_a_short_timeout(kafka, topic, timeout_ms):
    """An idempotent producer needs up to a second before its first record."""
    one = spec(kafka.bootstrap, topic, timeout_ms=timeout_ms)
    assert run(dispatcher(), lambda producers: producers.send(one, identity()))["offset"] == 0


# what goes wrong


@pytest.mark.parametrize("timeout_ms", [1000, 1500, 2500])
def test_a_broker_that_is_down_is_a_timeout_within_the_timeout(timeout_ms):
    error = fail("127.0.0.1:1", timeout_ms=timeout_ms)
    assert (error.type, error.permanent) == ("TIMEOUT", False)
    assert "Connection refused" in error.message
    if timeout_ms > 2000:
        assert not error.may_have_been_delivered


def test_a_broker_that_is_silent_is_a_timeout():
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the system accepts, nobody reads
        error = fail(f"127.0.0.1:{listener.getsockname()[1]}", timeout_ms=2500)
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", False)


def test_a_record_on_its_way_to_a_broker_that_stops_may_have_been_delivered(kafka, topic):
    async def main(producers):
        await producers.send(spec(kafka.bootstrap, topic, timeout_ms=6000), identity("warm"))
        os.kill(kafka.pid, signal.SIGSTOP)
        try:
            return await failure(producers, spec(kafka.bootstrap, topic, timeout_ms=6000), identity("lost"))
        finally:
            os.kill(kafka.pid, signal.SIGCONT)

    error = run(dispatcher(), main)
    assert (error.type, error.may_have_been_delivered, error.permanent) == ("TIMEOUT", True, False)


class Behind(Tansu):
    """Sends its clients to a port in front of it."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._front = port

    def _command(self, port: int) -> list[str]:
        given = super()._command(port)
        given[given.index("--advertised-listener-url") + 1] = f"tcp://127.0.0.1:{self._front}"
        return given


@pytest.mark.parametrize(
    ("fields", "resends"),
    [({"acks": "1"}, False), ({"acks": "all", "timeout_ms": 2000}, False), ({"acks": "all"}, True)],
)
def test_a_record_whose_confirmation_is_lost_is_not_written_twice_in_the_attempt(fields, resends):
    async def main(producers):
        with LossyProxy(0) as proxy, Behind(proxy.port) as broker:
            proxy.redirect(broker.port)
            await asyncio.to_thread(broker.create_topic, "t")
            proxy.loses_answer_to = b"unconfirmed"
            sending = producers.send(spec(broker.bootstrap, **fields), identity("unconfirmed"))
            (outcome,) = await asyncio.gather(sending, return_exceptions=True)
            last = await producers.send(spec(broker.bootstrap), identity("last"))
            records = await asyncio.to_thread(read, broker.bootstrap, "t", last["offset"] + 1)
        return outcome, [dict(record.headers())["te-idempotency-key"] for record in records]

    outcome, keys = run(dispatcher(), main)
    assert keys == [b"unconfirmed", b"last"]
    if resends:  # the broker has it already, and does not say where
        assert outcome == {"partition": 0, "offset": None}
    else:
        assert (outcome.type, outcome.permanent, outcome.may_have_been_delivered) == ("BROKER_ERROR", False, True)


def test_a_dead_broker_does_not_hold_up_another(kafka, topic):
    async def main(producers):
        dead = asyncio.create_task(producers.send(spec("127.0.0.1:1", timeout_ms=120_000), identity("dead")))
        await producers.send(spec(kafka.bootstrap, topic), identity())
        assert not dead.done()
        dead.cancel()

    run(dispatcher(), main)


def test_a_record_that_is_too_large_fails_for_good(bootstrap):
    error = fail(bootstrap, value_template="x" * 2_000_000)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", True, False)
    assert "MSG_SIZE_TOO_LARGE" in error.message


@pytest.mark.parametrize("name", ["", "not a topic/é", "nul\0", "\ud800"])
def test_an_invalid_topic_fails_for_good(kafka, name):
    # Not to the mock cluster, which takes any name.
    raw = spec(kafka.bootstrap) | {"topic": name}
    error = run(dispatcher(), lambda producers: failure(producers, raw))
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", True, False)


def test_an_empty_topic_is_not_even_tried(mock_cluster):
    raw = spec(mock_cluster) | {"topic": ""}
    assert run(dispatcher(), lambda producers: failure(producers, raw)).permanent


SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": "hunter2",
}


def test_refused_credentials_fail_for_good(bootstrap):
    error = fail(bootstrap, properties=SASL, timeout_ms=4000)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", True, False)
    assert "_AUTHENTICATION" in error.message


@pytest.mark.parametrize(
    "properties",
    [
        {"security.protocol": "nonsense"},
        {"security.protocol": "SSL", "ssl.ca.pem": "not a certificate"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "nonsense", "sasl.username": "u", "sasl.password": "p"},
    ],
)
def test_properties_that_librdkafka_refuses_fail_for_good(properties):
    async def main(producers):
        one = spec("127.0.0.1:1", properties=properties)
        return [await failure(producers, one) for _ in range(2)]

    for error in run(dispatcher(), main):
        assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", True, False)


def test_a_name_without_address_is_tried_again():
    error = fail("nope.invalid:9092,also.invalid:9092")
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", False, False)
    assert "resolved" in error.message


# where it goes, and what stays


@pytest.mark.parametrize(
    "servers", ["127.0.0.1:{port}", "localhost:{port}", "[::ffff:127.0.0.1]:{port}", "8.8.8.8:1,127.0.0.1:{port}"]
)
def test_the_guard_checks_each_bootstrap_server(kafka, topic, servers):
    guard = EgressGuard.from_settings("default", [], ["127.0.0.0/8", "::1"])
    error = fail(servers.format(port=kafka.port), topic, guard=guard)
    assert (error.type, error.permanent) == ("CONNECTION_ERROR", True)
    assert "egress" in error.message


@pytest.mark.parametrize("servers", ["8.8.8.8:9092", "127.0.0.1:9092"])
def test_where_only_public_addresses_are_allowed_there_is_no_kafka(servers):
    """Whom a cluster names as its brokers, librdkafka connects to without asking."""
    error = fail(servers, guard=EgressGuard.from_settings("public-only", [], []))
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", True, False)
    assert "TE_EGRESS_POLICY=public-only" in error.message


@pytest.mark.parametrize(
    "added",
    [":9092", "127.0.0.1:6379x", "PLAINTEXT://169.254.169.254:80/x", "é" * 130 + ":1", "a" * 254 + ":1", ""],
)
def test_what_librdkafka_reads_otherwise_than_we_fails_for_good(kafka, topic, added):
    raw = spec(kafka.bootstrap, topic) | {"bootstrap_servers": f"{kafka.bootstrap},{added}"}
    error = run(dispatcher(), lambda producers: failure(producers, raw))
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", True, False)


def test_a_server_without_address_is_not_left_to_librdkafka(kafka, topic):
    error = fail(f"{kafka.bootstrap},nope.invalid:9092", topic)
    assert (error.type, error.permanent) == ("BROKER_ERROR", False)
    assert "nope.invalid cannot be resolved" in error.message


def test_producers_that_are_not_used_are_closed(kafka, topic):
    def producers_alive():
        return sum(thread.name == "te-kafka" for thread in threading.enumerate())

    async def main(producers):
        await producers.send(spec(kafka.bootstrap, topic), identity())
        await producers.sweep()
        kept = producers_alive()
        async with producers.producer(spec(kafka.bootstrap, topic)) as producer:
            await producers.sweep(idle_seconds=0)
            assert not producer.closed.is_set(), "somebody uses it"
        await producers.sweep(idle_seconds=0)
        assert producer.closed.is_set()
        await producers.send(spec(kafka.bootstrap, topic), identity())
        return kept

    assert run(dispatcher(), main) == 1
    assert producers_alive() == 0


def test_a_producer_that_is_stopped_reports_what_it_did_not_send():
    async def main(producers):
        unreachable = spec("127.0.0.1:1", timeout_ms=60_000)
        sending = asyncio.create_task(failure(producers, unreachable))
        await asyncio.sleep(0)  # it is the first to wait for the producer, and so the first to get it
        async with producers.producer(unreachable) as producer:
            producer.stop()
        return await sending

    error = run(dispatcher(), main)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", False, False)
    assert "_PURGE_QUEUE" in error.message


def test_a_broker_that_says_what_is_not_text_costs_its_own_deliveries_only():
    async def main(producers, hostile):
        first = await failure(producers, spec(hostile.bootstrap, timeout_ms=20_000), identity("first"))
        async with producers.producer(spec(hostile.bootstrap, timeout_ms=20_000)) as producer:
            return first, producer.is_broken

    died = []
    before, threading.excepthook = threading.excepthook, died.append
    try:
        with HostileKafka(advertised=b"\xff\xfe") as hostile:
            error, is_still_lent = run(dispatcher(), lambda producers: main(producers, hostile))
    finally:
        threading.excepthook = before
    assert (error.type, error.permanent) == ("BROKER_ERROR", False)
    assert "TIMEOUT" not in error.message
    assert (died, is_still_lent) == ([], False)


def test_the_reason_counts_not_that_all_brokers_are_down():
    async def main():
        producer = SharedProducer({"bootstrap.servers": "127.0.0.1:1"}, [])
        await producer.opened.wait()
        producer.stop()
        await producer.closed.wait()
        producer.note_error(KafkaError(KafkaError._AUTHENTICATION, "why"))  # noqa: SLF001 - the names of librdkafka\'s own errors
        producer.note_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))  # noqa: SLF001 - the names of librdkafka\'s own errors
        return producer.last_error

    assert asyncio.run(main()).str() == "why"


def test_what_librdkafka_logs_is_ours_to_tone_down(mock_cluster, caplog):
    caplog.set_level(logging.DEBUG, logger="actors.dispatch.kafka_producer")
    fail(mock_cluster, properties=SASL, timeout_ms=4000)
    assert "librdkafka" in caplog.text
    assert all(record.levelno == logging.DEBUG for record in caplog.records)


def test_what_librdkafka_logs_has_no_secret(caplog):
    LibrdkafkaLog([Scrubber(["hunter2"])]).log(
        logging.ERROR, "%s [%s] %s", "CONFWARN", "rdkafka#1", "password hunter2 is weak"
    )
    assert caplog.messages == ["librdkafka: CONFWARN [rdkafka#1] password [secret] is weak"]
    assert caplog.records[0].levelno == logging.ERROR


@pytest.mark.parametrize("name", ["sasl.username", "sasl.password", "ssl.key.password"])
def test_what_librdkafka_logs_has_no_credentials_even_if_they_are_no_secrets(caplog, name):
    given = spec("127.0.0.1:1", properties=SASL | {name: "hunter-two"})
    LibrdkafkaLog(log_scrubbers(given, NO_SECRETS)).log(logging.ERROR, "SASL PLAIN failed for %s", "hunter-two")
    assert caplog.messages == ["librdkafka: SASL PLAIN failed for [secret]"]


def test_a_server_that_is_nobody_elses_secret_is_no_reason_to_log_it(caplog):
    """Two endpoints send to the same brokers, of which one knows them from a secret."""
    caplog.set_level(logging.DEBUG, logger="actors.dispatch.kafka_producer")
    who = dataclasses.replace(identity(), scrubber=Scrubber(["127.0.0.1"]))

    async def main(producers):
        await failure(producers, spec("127.0.0.1:1", timeout_ms=1500), identity())
        caplog.clear()
        await failure(producers, spec("127.0.0.1:1", timeout_ms=1500), who)

    run(dispatcher(), main)
    assert "[secret]:1" in caplog.text


def test_what_librdkafka_logs_has_no_secret_of_the_spec(caplog):
    """A server's name may be one too."""
    caplog.set_level(logging.DEBUG, logger="actors.dispatch.kafka_producer")
    who = dataclasses.replace(identity(), scrubber=Scrubber(["127.0.0.1"]))
    run(dispatcher(), lambda producers: failure(producers, spec("127.0.0.1:1", timeout_ms=1500), who))
    assert "[secret]:1" in caplog.text
    assert "127.0.0.1" not in caplog.text
