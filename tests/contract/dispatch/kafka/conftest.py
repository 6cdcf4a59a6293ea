"""Two Kafka brokers for tests: Tansu, and the mock cluster of librdkafka."""

import uuid

import pytest
from confluent_kafka import Producer

import tests.worker_environment  # noqa: F401 - first
from tests.contract.dispatch.kafka.deliveries import silent


@pytest.fixture(scope="module")
def mock_cluster():
    """The brokers inside a librdkafka client; they stop when the client is deleted."""
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
