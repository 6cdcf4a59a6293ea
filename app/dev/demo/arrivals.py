"""Reading back what arrived, with ordinary clients and nothing of the product."""

import json
import time
from dataclasses import dataclass

import redis
from confluent_kafka import Consumer, Message, TopicPartition

from app.dev.demo.catalogue import FLAKY_PATH, RECEIVER_PATH, STREAM, TOPIC
from app.dev.receiver import Received
from app.dev.stack.targets import Targets

_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """One message, as its receiver sees it."""

    order_id: str
    title: str
    headers: list[tuple[str, str]]
    body: str


def http(targets: Targets) -> list[Arrival]:
    """Return the requests that the receiver got."""
    found = targets.receiver.record.matching(RECEIVER_PATH) + targets.receiver.record.matching(FLAKY_PATH)
    return [_of_request(received) for received in found]


def kafka(targets: Targets, expected: int) -> list[Arrival]:
    """Read the topic from its beginning until `expected` records came, or patience ends."""
    # Groups hang on Tansu: partitions are assigned, and the group's name is never used.
    settings = {"bootstrap.servers": targets.kafka.bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(settings)
    try:
        partitions = consumer.list_topics(TOPIC, timeout=5).topics[TOPIC].partitions
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in partitions])
        arrivals: list[Arrival] = []
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(arrivals) < expected and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                arrivals.append(_of_record(message))
        return arrivals
    finally:
        consumer.close()


def redis_stream(targets: Targets) -> list[Arrival]:
    """Return the entries of the stream."""
    with redis.Redis.from_url(targets.valkey.url, decode_responses=True) as client:
        entries = client.xrange(STREAM)
    return [
        Arrival(fields.get("order_id", ""), f"XRANGE {STREAM}  {entry}", list(fields.items()), "")
        for entry, fields in entries
    ]


def _of_request(received: Received) -> Arrival:
    order = json.loads(received.body).get("order_id", "")
    headers = [(name, value) for name, value in received.headers.items() if name not in {"Host", "Content-Length"}]
    return Arrival(order, f"{received.method} {received.path}", headers, received.body.decode())


def _of_record(message: Message) -> Arrival:
    value = _text(message.value())
    headers = [(str(name), _text(raw)) for name, raw in dict(message.headers() or []).items()]
    title = (
        f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}, key {message.key()!r}"
    )
    return Arrival(json.loads(value).get("order_id", ""), title, headers, value)


def _text(value: str | bytes | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""
