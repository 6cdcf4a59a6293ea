"""Deliveries to Kafka: a dispatcher, a rendered spec, the output or error of a send, and the records of a broker."""

import logging
import time

from confluent_kafka import Consumer, TopicPartition

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch.kafka import KafkaDispatcher
from schema.states import EndpointType
from tests.contract.dispatch.dispatching import OPEN, Opening, failure, identity, rendered, run
from tests.waiting import HUNG_SECONDS

silent = logging.getLogger("te-test-kafka")
silent.addHandler(logging.NullHandler())
silent.propagate = False

SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "u",
    "sasl.password": "hunter2",
}


def dispatcher(guard=OPEN):
    return Opening(KafkaDispatcher, guard)


def spec(bootstrap, topic="t", **fields):
    values = {"bootstrap_servers": bootstrap, "topic": topic, "value_template": {"a": 1}, **fields}
    return rendered(EndpointType.KAFKA, values)


def send(bootstrap, topic="t", delivery=None, **fields):
    return run(dispatcher(), lambda kafka: kafka.send(spec(bootstrap, topic, **fields), delivery or identity()))


def fail(bootstrap, topic="t", *, guard=OPEN, **fields):
    return run(dispatcher(guard), lambda kafka: failure(kafka, spec(bootstrap, topic, **fields)))


def read(bootstrap, topic, count):
    """Read `count` records of partition 0, without a consumer group: consumer groups hang on Tansu."""
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
