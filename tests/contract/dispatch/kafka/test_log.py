"""Log lines of librdkafka: the log level, and the masking of secrets."""

import logging

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.kafka import log_scrubbers
from actors.dispatch.librdkafka_log import LibrdkafkaLog
from app.catalog.scrub import NO_SECRETS, Scrubber
from tests.contract.dispatch.dispatching import failure, identity, run
from tests.contract.dispatch.kafka.deliveries import SASL, dispatcher, fail, spec


def test_librdkafka_lines_of_a_failed_delivery_have_level_debug(mock_cluster, caplog):
    caplog.set_level(logging.DEBUG, logger="actors.dispatch.librdkafka_log")
    fail(mock_cluster, properties=SASL, timeout_ms=4000)
    assert "librdkafka" in caplog.text
    assert all(record.levelno == logging.DEBUG for record in caplog.records)


def test_secret_is_masked_in_a_librdkafka_line(caplog):
    LibrdkafkaLog([Scrubber(["hunter2"])]).log(
        logging.ERROR, "%s [%s] %s", "CONFWARN", "rdkafka#1", "password hunter2 is weak"
    )
    assert caplog.messages == ["librdkafka: CONFWARN [rdkafka#1] password [secret] is weak"]
    assert caplog.records[0].levelno == logging.ERROR


@pytest.mark.parametrize("name", ["sasl.username", "sasl.password", "ssl.key.password"])
def test_credentials_in_properties_are_masked_although_they_are_no_secrets(caplog, name):
    with_credentials = spec("127.0.0.1:1", properties=SASL | {name: "hunter-two"})
    LibrdkafkaLog(log_scrubbers(with_credentials, NO_SECRETS)).log(
        logging.ERROR, "SASL PLAIN failed for %s", "hunter-two"
    )
    assert caplog.messages == ["librdkafka: SASL PLAIN failed for [secret]"]


def test_secret_of_one_endpoint_is_masked_on_a_producer_shared_with_another_endpoint(caplog):
    """Two endpoints send to the same broker. For the second endpoint the host name of the broker is a secret."""
    caplog.set_level(logging.DEBUG, logger="actors.dispatch.librdkafka_log")
    with_secret = identity()._replace(scrubber=Scrubber(["127.0.0.1"]))

    async def main(producers):
        await failure(producers, spec("127.0.0.1:1", timeout_ms=1500), identity())
        caplog.clear()
        await failure(producers, spec("127.0.0.1:1", timeout_ms=1500), with_secret)

    run(dispatcher(), main)
    assert "[secret]:1" in caplog.text


def test_server_name_that_is_a_secret_is_masked(caplog):
    caplog.set_level(logging.DEBUG, logger="actors.dispatch.librdkafka_log")
    with_secret = identity()._replace(scrubber=Scrubber(["127.0.0.1"]))
    run(dispatcher(), lambda producers: failure(producers, spec("127.0.0.1:1", timeout_ms=1500), with_secret))
    assert "[secret]:1" in caplog.text
    assert "127.0.0.1" not in caplog.text
