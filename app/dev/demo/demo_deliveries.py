"""Deliveries of the demo, as their receivers hold them."""

import json
from dataclasses import dataclass

import redis
from confluent_kafka import Message

from app.dev.demo.demo_definitions import FLAKY_PATH, PEOPLE_PATH, RECEIVER_PATH, STREAM, TOPIC
from app.dev.receiver import Received
from app.dev.servers.contents import record_headers, record_text, stream_entries, topic_records
from app.dev.stack.receiver_targets import Targets

_UNINTERESTING = {"Host", "Content-Length"}


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message, as its receiver sees it."""

    order_id: str
    title: str
    headers: list[tuple[str, str]]
    body: str


def http(targets: Targets) -> list[Delivery]:
    """Return the requests that the receiver got."""
    found = targets.receiver.record.matching(RECEIVER_PATH) + targets.receiver.record.matching(FLAKY_PATH)
    return [_of_request(received, "order_id") for received in found]


def notification(targets: Targets) -> list[Delivery]:
    """Return the messages to people that a webhook got."""
    return [_of_request(received, "title") for received in targets.receiver.record.matching(PEOPLE_PATH)]


def kafka(targets: Targets, expected: int, patience: float) -> list[Delivery]:
    """Read the topic until `expected` records came, or patience ends."""
    records = topic_records(targets.kafka.bootstrap, TOPIC, at_least=expected, patience=patience)
    return [_of_record(message) for message in records]


def redis_stream(targets: Targets) -> list[Delivery]:
    """Return the entries of the stream."""
    with redis.Redis.from_url(targets.valkey.url, decode_responses=True) as client:
        return [
            Delivery(fields.get("order_id", ""), f"XRANGE {STREAM}  {entry}", list(fields.items()), "")
            for entry, fields in stream_entries(client, STREAM)
        ]


def _of_request(received: Received, key: str) -> Delivery:
    order = json.loads(received.body).get(key, "")
    headers = [(name, value) for name, value in received.headers.items() if name not in _UNINTERESTING]
    return Delivery(order, f"{received.method} {received.path}", headers, received.body.decode())


def _of_record(message: Message) -> Delivery:
    value = record_text(message.value())
    title = (
        f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}, key {message.key()!r}"
    )
    return Delivery(json.loads(value).get("order_id", ""), title, list(record_headers(message).items()), value)
