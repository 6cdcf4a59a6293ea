"""Slow readers of the event stream: their buffers and the time that they may take are bounded."""

import socket
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from app.features.events import store as events_store
from app.features.events.event import EventFilter, EventPosition, heartbeat
from app.features.events.stream import MAX_BYTES, TAKE_SECONDS, Stream, Subscription
from app.features.events.streams import Streams, serve
from app.kernel import ids
from app.kernel.access import api_keys
from app.kernel.access.api_keys import Scope
from app.kernel.access.key_ring import KeyRing
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.reading.horizon import horizon
from tests.waiting import HUNG_SECONDS, eventually

ALL = Subscription(EventFilter(), EventPosition(EPOCH), "key")
COUNT = 1_200


class Pair:
    """A stream and the socket of its client, from which the test reads."""

    def __init__(self, subscription: Subscription = ALL) -> None:
        ours, self.client = socket.socketpair()
        self.client.settimeout(HUNG_SECONDS)
        self.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.stream = Stream(subscription, ours, lambda _whole: ours.close(), chunked=False, ends_at=1e9)

    def close(self) -> None:
        self.stream.sock.close()
        self.client.close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    yield pair
    pair.close()


def test_reader_that_takes_too_few_bytes_is_disconnected(pair: Pair) -> None:
    while pair.stream.is_drained or pair.stream.has_room:
        pair.stream.put(b"x" * 1000)
        assert pair.stream.send(0.0)
    for now in range(1, int(TAKE_SECONDS)):
        pair.client.recv(1)
        assert pair.stream.send(float(now))
    assert not pair.stream.send(TAKE_SECONDS + 1)


def test_reader_that_empties_its_buffer_in_time_stays_connected(pair: Pair) -> None:
    for now in range(0, 300, 20):
        pair.stream.put(b"x" * MAX_BYTES)
        assert pair.stream.send(float(now))
        while not pair.stream.is_drained:
            pair.client.recv(65_536)
            assert pair.stream.send(float(now) + 10)


def test_client_that_sends_too_much_is_disconnected(pair: Pair) -> None:
    pair.client.send(b"x")
    assert pair.stream.receive()
    pair.client.setblocking(False)
    sent = sum(1 for _ in iter(lambda: pair.client.send(b"x" * 1000) and pair.stream.receive(), False))
    assert sent * 1000 <= 2 * MAX_BYTES


@pytest.fixture
def many(database: Database) -> Database:
    """A database with COUNT events."""
    database.fetch(
        text(
            "INSERT INTO audit_log (audit_id, actor_name, action, resource_type, resource) "
            "SELECT unnest(CAST(:ids AS TEXT[])), 'x', 'create', 'config', 'name' RETURNING audit_id"
        ),
        {"ids": [ids.audit_id() for _ in range(COUNT)]},
    )
    eventually(lambda: events_store.read(database, EventPosition(EPOCH), horizon(database), ["catalogue"]).events)
    return database


def test_fast_reader_does_not_wait_between_two_polls(many: Database) -> None:
    """Otherwise no stream could keep up with more than a few hundred events per second."""
    key_id = api_keys.create(many, "test", [Scope.READ], None).split("_")[1]
    ours, client = socket.socketpair()
    client.settimeout(HUNG_SECONDS)
    streams = Streams(many, KeyRing(many), poll_seconds=10 * HUNG_SECONDS)
    subscription = Subscription(EventFilter(kinds=frozenset({"catalogue"})), EventPosition(EPOCH), key_id)
    streams.open(subscription, ours, lambda _whole: ours.close(), chunked=False)
    got = b""
    while got.count(b"\ndata: ") < COUNT:
        got += client.recv(65_536)
    assert len(got) > 3 * MAX_BYTES
    assert streams.stop()
    client.close()


def test_reader_far_behind_gets_all_events_in_portions_and_each_once(many: Database) -> None:
    behind, elsewhere = (
        Pair(),
        Pair(Subscription(EventFilter(kinds=frozenset({"breaker"})), EventPosition(EPOCH), "key")),
    )
    got = bytearray()
    while got.count(b"\ndata: ") < COUNT:
        serve(many, [behind.stream, elsewhere.stream])
        assert behind.stream._put_bytes - behind.stream._sent_bytes < 2 * MAX_BYTES  # noqa: SLF001 - the bounded buffer
        assert behind.stream.send(0.0)
        got += behind.client.recv(65_536)
    lines = [line for line in got.decode().splitlines() if line.startswith("id: ")]
    assert len(set(lines)) == len(lines) == COUNT
    while serve(many, [behind.stream]):
        pass
    assert behind.stream.is_drained, "there are no further events"
    elsewhere.stream.put(heartbeat(elsewhere.stream.position))
    assert elsewhere.stream.position.at > EPOCH, "the position moves past events that do not match"
    behind.close()
    elsewhere.close()
