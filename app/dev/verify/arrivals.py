"""Reading back what the receivers hold, with ordinary clients and nothing of the product."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import redis
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from app.dev.verify.evidence import Arrival
from schema.states import EndpointType

_GRAIN = timedelta(milliseconds=1)
_PATIENCE_SECONDS = 10.0
_PAGE = 5000


def kafka(bootstrap: str, topic: str) -> list[Arrival]:
    """Read a topic from its beginning to its end."""
    # Groups hang on Tansu: partitions are assigned, and the group's name is never used.
    settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
    consumer = Consumer(settings | {"enable.partition.eof": True})
    try:
        partitions = consumer.list_topics(topic, timeout=_PATIENCE_SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        arrivals, ended = list[Arrival](), set[int | None]()
        while len(ended) < len(partitions):
            message = consumer.poll(_PATIENCE_SECONDS)
            if message is None:
                raise TimeoutError(f"the end of {topic} did not come within {_PATIENCE_SECONDS:.0f} s")
            error = message.error()
            if error is None:
                arrivals.append(_of_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's public name for it
                ended.add(message.partition())
            else:
                raise KafkaException(error)
        return arrivals
    finally:
        consumer.close()


def redis_stream(url: str, stream: str) -> list[Arrival]:
    """Read a stream; which execution an entry is of, the notes of the script that appended it tell."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        owners = dict(_notes(client, stream))
        return [
            Arrival(
                EndpointType.REDIS_STREAM, owners.get(entry, ""), None, _instant(int(entry.split("-")[0])), grain=_GRAIN
            )
            for entry in _entries(client, stream)
        ]


def _notes(client: redis.Redis, stream: str) -> Iterator[tuple[str, str]]:
    prefix = f"{{{stream}}}:te-once:"
    for key in client.scan_iter(match=f"{prefix}*", count=_PAGE):
        entry = client.get(key)
        if entry is not None:
            yield str(entry), str(key).removeprefix(prefix)


def _entries(client: redis.Redis, stream: str) -> Iterator[str]:
    start = "-"
    while page := client.xrange(stream, min=start, count=_PAGE):
        for entry, _fields in page:
            yield str(entry)
        start = f"({page[-1][0]!s}"


def _of_record(message: Message) -> Arrival:
    headers = {str(name): _text(value) for name, value in dict(message.headers() or []).items()}
    _kind, milliseconds = message.timestamp()
    attempt = int(headers["te-attempt"])
    return Arrival(EndpointType.KAFKA, headers["te-execution-id"], attempt, _instant(milliseconds), grain=_GRAIN)


def _instant(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _text(value: str | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
