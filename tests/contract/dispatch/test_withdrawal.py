"""No transport sends anything for a claim that was lost before the first byte."""

import uuid
from typing import Any

import pytest
import redis
from confluent_kafka import Consumer, TopicPartition

import tests.worker_environment  # noqa: F401 - first
from actors.dispatch import DISPATCHERS
from app.dev.receiver import Receiver
from app.dev.servers import Tansu, Valkey
from app.queue.executions.execution_model import NotSentError
from schema.states import EndpointType
from tests.contract.dispatch.dispatching import Opening, Withdrawn, identity, rendered, run

WITHDRAWN = identity()._replace(permission=Withdrawn())


def send(type_: EndpointType, **fields: Any) -> None:
    spec = rendered(type_, fields)
    run(Opening(DISPATCHERS[type_]), lambda dispatcher: dispatcher.send(spec, WITHDRAWN))


def test_no_request_is_sent_for_a_lost_claim(receiver: Receiver) -> None:
    path = "/ok/withdrawn"
    with pytest.raises(NotSentError):
        send(EndpointType.HTTP, url=receiver.url(path))
    assert [request for request in receiver.requests if request.path == path] == []


def test_no_message_is_sent_for_a_lost_claim(receiver: Receiver) -> None:
    path = "/ok/withdrawn-message"
    with pytest.raises(NotSentError):
        send(EndpointType.NOTIFICATION, url=receiver.url(path).replace("http", "json", 1), title="t", body="b")
    assert [request for request in receiver.requests if request.path == path] == []


def test_no_entry_is_appended_for_a_lost_claim(valkey: Valkey) -> None:
    with pytest.raises(NotSentError):
        send(EndpointType.REDIS_STREAM, redis_url=valkey.url, stream="withdrawn", fields_template={"a": "1"})
    with redis.Redis.from_url(valkey.url) as client:
        assert client.xlen("withdrawn") == 0


def test_no_record_is_produced_for_a_lost_claim(kafka: Tansu) -> None:
    topic = f"t-{uuid.uuid4().hex}"
    kafka.create_topic(topic)
    with pytest.raises(NotSentError):
        send(EndpointType.KAFKA, bootstrap_servers=kafka.bootstrap, topic=topic, value_template={"a": 1})
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": topic})
    try:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (0, 0)
    finally:
        consumer.close()
