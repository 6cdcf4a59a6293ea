"""Bootstrap servers: which of them are asked, and by which name and address."""

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.egress import EgressGuard
from tests.contract.dispatch.dispatching import failure, run
from tests.contract.dispatch.kafka.deliveries import dispatcher, fail, spec


def test_a_name_without_address_is_tried_again():
    error = fail("nope.invalid:9092,also.invalid:9092")
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", False, False)
    assert "resolved" in error.message


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
