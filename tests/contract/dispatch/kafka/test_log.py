"""What librdkafka logs: at which level, and without secrets."""

import dataclasses
import logging

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.kafka import log_scrubbers
from actors.dispatch.kafka_producer import LibrdkafkaLog
from app.catalog.scrub import NO_SECRETS, Scrubber
from tests.contract.dispatch.dispatching import failure, identity, run
from tests.contract.dispatch.kafka.deliveries import SASL, dispatcher, fail, spec


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
