"""Arrivals at the receivers, as they hold them at the end."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import redis
from confluent_kafka import Message

from app.dev.servers.contents import record_headers, stream_entries, topic_records
from app.dev.verify.evidence import Arrival
from schema.states import EndpointType

_GRAIN = timedelta(milliseconds=1)
_SCAN = 5000


def kafka(bootstrap: str, topic: str) -> list[Arrival]:
    """Read a topic from its beginning to its end."""
    return [_of_record(message) for message in topic_records(bootstrap, topic)]


def redis_stream(url: str, stream: str) -> list[Arrival]:
    """Read a stream; which execution an entry is of, the notes of the script that appended it tell."""
    with redis.Redis.from_url(url, decode_responses=True) as client:
        owners = dict(_notes(client, stream))
        return [
            Arrival(
                EndpointType.REDIS_STREAM, owners.get(entry, ""), None, _instant(int(entry.split("-")[0])), grain=_GRAIN
            )
            for entry, _fields in stream_entries(client, stream)
        ]


def _notes(client: redis.Redis, stream: str) -> Iterator[tuple[str, str]]:
    prefix = f"{{{stream}}}:te-once:"
    for key in client.scan_iter(match=f"{prefix}*", count=_SCAN):
        entry = client.get(key)
        if entry is not None:
            yield str(entry), str(key).removeprefix(prefix)


def _of_record(message: Message) -> Arrival:
    headers = record_headers(message)
    _kind, milliseconds = message.timestamp()
    attempt = int(headers["te-attempt"])
    return Arrival(EndpointType.KAFKA, headers["te-execution-id"], attempt, _instant(milliseconds), grain=_GRAIN)


def _instant(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
