"""Failed Kafka deliveries: permanent and retryable, with and without a possibly written record."""

import asyncio
import os
import signal
import socket
import threading

import psutil
import pytest

import tests.worker_environment  # noqa: F401 - first
from tests.contract.dispatch.dispatching import failure, identity, run
from tests.contract.dispatch.kafka.deliveries import SASL, dispatcher, fail, spec
from tests.contract.dispatch.kafka.hostile import HostileKafka
from tests.waiting import eventually


@pytest.mark.parametrize("timeout_ms", [1000, 1500, 2500])
def test_unreachable_broker_is_a_timeout_that_quotes_the_cause(timeout_ms):
    error = fail("127.0.0.1:1", timeout_ms=timeout_ms)
    assert (error.type, error.permanent) == ("TIMEOUT", False)
    assert "Connection refused" in error.message
    if timeout_ms > 2000:
        assert not error.may_have_been_delivered


def test_silent_broker_is_a_timeout():
    with socket.create_server(("127.0.0.1", 0)) as listener:  # the kernel accepts connections, no process reads
        error = fail(f"127.0.0.1:{listener.getsockname()[1]}", timeout_ms=2500)
    assert (error.type, error.may_have_been_delivered) == ("TIMEOUT", False)


def test_record_sent_to_a_stopped_broker_may_have_been_delivered(kafka, topic):
    async def main(producers):
        await producers.send(spec(kafka.bootstrap, topic, timeout_ms=6000), identity("warm"))
        os.kill(kafka.pid, signal.SIGSTOP)
        eventually(lambda: psutil.Process(kafka.pid).status() == psutil.STATUS_STOPPED)
        try:
            return await failure(producers, spec(kafka.bootstrap, topic, timeout_ms=6000), identity("lost"))
        finally:
            os.kill(kafka.pid, signal.SIGCONT)

    error = run(dispatcher(), main)
    assert (error.type, error.may_have_been_delivered, error.permanent) == ("TIMEOUT", True, False)


def test_dead_broker_does_not_delay_deliveries_to_another_broker(kafka, topic):
    async def main(producers):
        dead = asyncio.create_task(producers.send(spec("127.0.0.1:1", timeout_ms=120_000), identity("dead")))
        await producers.send(spec(kafka.bootstrap, topic), identity())
        assert not dead.done()
        dead.cancel()

    run(dispatcher(), main)


def test_oversized_record_fails_permanently(bootstrap):
    error = fail(bootstrap, value_template="x" * 2_000_000)
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", True, False)
    assert "MSG_SIZE_TOO_LARGE" in error.message


@pytest.mark.parametrize("name", ["", "not a topic/é", "nul\0", "\ud800"])
def test_invalid_topic_fails_permanently(kafka, name):
    # Only with Tansu: the mock cluster accepts any name.
    raw = spec(kafka.bootstrap) | {"topic": name}
    error = run(dispatcher(), lambda producers: failure(producers, raw))
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", True, False)


def test_empty_topic_fails_permanently(mock_cluster):
    raw = spec(mock_cluster) | {"topic": ""}
    assert run(dispatcher(), lambda producers: failure(producers, raw)).permanent


def test_refused_credentials_fail_permanently(bootstrap):
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
def test_properties_that_librdkafka_refuses_fail_permanently(properties):
    async def main(producers):
        refused = spec("127.0.0.1:1", properties=properties)
        return [await failure(producers, refused) for _ in range(2)]

    for error in run(dispatcher(), main):
        assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", True, False)


def test_broker_with_an_undecodable_host_name_fails_only_its_own_deliveries():
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
    # librdkafka's own report of the name may come before the answer to the check: then the delivery is retried.
    assert (error.type, error.permanent) in {("CONNECTION_ERROR", True), ("BROKER_ERROR", False)}, error.message
    assert "\\xff\\xfe" in error.message or "UnicodeDecodeError" in error.message
    assert (died, is_still_lent) == ([], False)
