"""Bootstrap servers: lookups of their names, the egress guard, and invalid entries."""

import pytest

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.egress import EgressGuard
from tests.contract.dispatch.dispatching import failure, run
from tests.contract.dispatch.kafka.deliveries import dispatcher, fail, spec


def test_host_names_without_an_address_are_a_retryable_error():
    error = fail("nope.invalid:9092,also.invalid:9092")
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("BROKER_ERROR", False, False)
    assert "resolved" in error.message


@pytest.mark.parametrize(
    "servers", ["127.0.0.1:{port}", "localhost:{port}", "[::ffff:127.0.0.1]:{port}", "8.8.8.8:1,127.0.0.1:{port}"]
)
def test_egress_guard_checks_each_bootstrap_server(kafka, topic, servers):
    guard = EgressGuard.from_settings("default", [], ["127.0.0.0/8", "::1"])
    error = fail(servers.format(port=kafka.port), topic, guard=guard)
    assert (error.type, error.permanent) == ("CONNECTION_ERROR", True)
    assert "egress" in error.message


@pytest.mark.parametrize("servers", ["8.8.8.8:9092", "127.0.0.1:9092"])
def test_public_only_egress_policy_refuses_all_kafka_deliveries(servers):
    """librdkafka connects to the brokers that a cluster advertises without a check by the egress guard."""
    error = fail(servers, guard=EgressGuard.from_settings("public-only", [], []))
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", True, False)
    assert "TE_EGRESS_POLICY=public-only" in error.message


@pytest.mark.parametrize(
    "added",
    [":9092", "127.0.0.1:6379x", "PLAINTEXT://169.254.169.254:80/x", "é" * 130 + ":1", "a" * 254 + ":1", ""],
)
def test_ambiguous_bootstrap_server_fails_permanently(kafka, topic, added):
    # librdkafka would read each of these entries differently from the egress guard.
    raw = spec(kafka.bootstrap, topic) | {"bootstrap_servers": f"{kafka.bootstrap},{added}"}
    error = run(dispatcher(), lambda producers: failure(producers, raw))
    assert (error.type, error.permanent, error.may_have_been_delivered) == ("CONNECTION_ERROR", True, False)


def test_unresolvable_bootstrap_server_fails_before_librdkafka_starts(kafka, topic):
    error = fail(f"{kafka.bootstrap},nope.invalid:9092", topic)
    assert (error.type, error.permanent) == ("BROKER_ERROR", False)
    assert "nope.invalid cannot be resolved" in error.message
