"""Contents of topics and streams, read with ordinary clients, without code of the product."""

import time
from collections.abc import Iterator

import redis
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

_PATIENCE_SECONDS = 10.0
_POLL_SECONDS = 0.5
_PAGE = 5000

# Consumer groups hang on Tansu, so partitions are assigned and the group's name is unused.
_CONSUMER = {"group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True}


def topic_records(
    bootstrap: str, topic: str, *, at_least: int = 0, patience: float = _PATIENCE_SECONDS
) -> list[Message]:
    """Read a topic from beginning to end; with `at_least`, until that many records arrived or `patience` passed.

    The broker's end of the log may lag behind. Raises TimeoutError if the end does not arrive.
    """
    consumer = Consumer(_CONSUMER | {"bootstrap.servers": bootstrap})
    try:
        partitions = consumer.list_topics(topic, timeout=_PATIENCE_SECONDS).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        records, ended = list[Message](), set[int | None]()
        deadline = time.monotonic() + patience
        while len(records) < at_least or len(ended) < len(partitions):
            if time.monotonic() > deadline:
                if at_least:
                    break
                raise TimeoutError(f"the end of {topic} did not arrive within {patience:.0f} s")
            message = consumer.poll(_POLL_SECONDS)
            if message is not None and _is_record(message, ended):
                records.append(message)
                deadline = time.monotonic() + patience
        return records
    finally:
        consumer.close()


def _is_record(message: Message, ended: set[int | None]) -> bool:
    """Return whether a message is a record; add the partition of an end to `ended`, raise an error."""
    error = message.error()
    if error is None:
        return True
    if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's public name for it
        raise KafkaException(error)
    ended.add(message.partition())
    return False


def stream_entries(client: redis.Redis, stream: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield id and fields of each entry of a stream; the client must decode its answers."""
    start = "-"
    while page := client.xrange(stream, min=start, count=_PAGE):
        for entry, fields in page:
            yield str(entry), {str(name): str(value) for name, value in (fields or {}).items()}
        start = f"({page[-1][0]!s}"


def record_text(value: str | bytes | None) -> str:
    """Return the text of a record's value or header."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""


def record_headers(message: Message) -> dict[str, str]:
    """Return the headers of a record as text."""
    return {str(name): record_text(value) for name, value in dict(message.headers() or []).items()}
