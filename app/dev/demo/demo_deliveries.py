"""Deliveries of the demo, as recorded by their receivers."""

import json
from dataclasses import dataclass

import redis
from confluent_kafka import Message

from app.dev.demo.demo_definitions import FLAKY_PATH, PEOPLE_PATH, RECEIVER_PATH, STREAM, TOPIC
from app.dev.receiver import Received
from app.dev.servers.contents import record_headers, record_text, stream_entries, topic_records
from app.dev.stack.receiver_targets import LocalTargets

_UNINTERESTING = {"Host", "Content-Length"}


@dataclass(frozen=True, slots=True)
class DemoDelivery:
    """Message at its receiver."""

    order_id: str
    title: str
    headers: list[tuple[str, str]]
    body: str


def http(targets: LocalTargets) -> list[DemoDelivery]:
    found = targets.receiver.record.matching(RECEIVER_PATH) + targets.receiver.record.matching(FLAKY_PATH)
    return [_of_request(received, "order_id") for received in found]


def notification(targets: LocalTargets) -> list[DemoDelivery]:
    return [_of_request(received, "title") for received in targets.receiver.record.matching(PEOPLE_PATH)]


def kafka(targets: LocalTargets, expected: int, patience: float) -> list[DemoDelivery]:
    """Read the topic until `expected` records arrived or `patience` seconds passed."""
    records = topic_records(targets.kafka.bootstrap, TOPIC, at_least=expected, patience=patience)
    return [_of_record(message) for message in records]


def redis_stream(targets: LocalTargets) -> list[DemoDelivery]:
    with redis.Redis.from_url(targets.valkey.url, decode_responses=True) as client:
        return [
            DemoDelivery(fields.get("order_id", ""), f"XRANGE {STREAM}  {entry}", list(fields.items()), "")
            for entry, fields in stream_entries(client, STREAM)
        ]


def _of_request(received: Received, key: str) -> DemoDelivery:
    order = json.loads(received.body).get(key, "")
    headers = [(name, value) for name, value in received.headers.items() if name not in _UNINTERESTING]
    return DemoDelivery(order, f"{received.method} {received.path}", headers, received.body.decode())


def _of_record(message: Message) -> DemoDelivery:
    value = record_text(message.value())
    title = (
        f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}, key {message.key()!r}"
    )
    return DemoDelivery(json.loads(value).get("order_id", ""), title, list(record_headers(message).items()), value)
