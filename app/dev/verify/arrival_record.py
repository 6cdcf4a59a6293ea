"""Arrivals at the receivers: HTTP requests as they come, records and entries at the end."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import redis

from app.dev.receiver import Received, Record
from app.dev.servers.contents import record_headers, stream_entries, topic_records
from app.dev.verify.evidence import Arrival
from schema.states import EndpointType

_GRAIN = timedelta(milliseconds=1)
_SCAN = 5000


class ArrivalRecord(Record):
    """Record of HTTP requests that keeps only the fields that are judged, so that a long run fits into memory."""

    def __init__(self) -> None:
        super().__init__(limit=0)
        self.arrivals: list[Arrival] = []
        self._places: dict[Received, int] = {}
        self.held = Counter[str]()
        """Number of requests to the behaviour `held`, by path."""

    def add(self, received: Received) -> int:
        """Record a request, and as far as it is known whether the receiver takes it."""
        times = super().add(received)
        behaviour, _, rest = received.path.strip("/").partition("/")
        if behaviour == "held":
            self.held[received.path] += 1
        is_refused = behaviour == "flaky" and times <= int(rest.partition("/")[0])
        arrival = Arrival(
            EndpointType.HTTP,
            received.headers.get("X-Task-Executor-Execution-Id", ""),
            int(received.headers.get("X-Task-Executor-Attempt", "0")),
            datetime.fromtimestamp(received.time, UTC),
            taken=not is_refused and behaviour != "broken",  # the answer of `broken` decides at the end
        )
        self._places[received] = len(self.arrivals)
        self.arrivals.append(arrival)
        return times

    def end(self, received: Received) -> None:
        super().end(received)
        place = self._places.pop(received)
        arrival = self.arrivals[place]
        open_for = timedelta(seconds=(received.ended or received.monotonic) - received.monotonic)
        taken = received.status == HTTPStatus.OK if received.path.startswith("/broken/") else arrival.taken
        self.arrivals[place] = replace(arrival, ended=arrival.at + open_for, taken=taken)


def kafka(bootstrap: str, topic: str) -> list[Arrival]:
    """Read a topic from its beginning to its end."""
    found = []
    for message in topic_records(bootstrap, topic):
        headers, (_kind, milliseconds) = record_headers(message), message.timestamp()
        attempt, at = int(headers["te-attempt"]), _instant(milliseconds)
        found.append(Arrival(EndpointType.KAFKA, headers["te-execution-id"], attempt, at, grain=_GRAIN))
    return found


def redis_stream(url: str, stream: str) -> list[Arrival]:
    """Read a stream; the delivery script's markers map its entries to executions."""
    prefix = f"{{{stream}}}:te-once:"
    with redis.Redis.from_url(url, decode_responses=True) as client:
        owners = {client.get(key): str(key).removeprefix(prefix) for key in client.scan_iter(f"{prefix}*", _SCAN)}
        return [
            Arrival(
                EndpointType.REDIS_STREAM, owners.get(entry, ""), None, _instant(int(entry.split("-")[0])), grain=_GRAIN
            )
            for entry, _fields in stream_entries(client, stream)
        ]


def _instant(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
