"""The pulse: the changes, read once for all viewers."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from flask import Flask
from sqlalchemy import text

from app.console.live.pulse import Pulse
from app.features.events.event import EventFilter, EventPosition
from app.features.events.stream import Stream, Subscription
from app.kernel.access.api_keys import Scope
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from tests.integration.client import services
from tests.integration.console.visitor import Visitor
from tests.integration.statements import Statements

VIEWERS = 100


@contextmanager
def viewers(number: int) -> Iterator[list[tuple[Stream, socket.socket]]]:
    pairs = [socket.socketpair() for _ in range(number)]
    subscription = Subscription(EventFilter(), EventPosition(EPOCH), "key")
    try:
        yield [(Stream(subscription, here, lambda _: None, chunked=False, ends_at=0.0), there) for here, there in pairs]
    finally:
        for here, there in pairs:
            here.close()
            there.close()


def test_hundred_viewers_cost_one_statement(app: Flask, database: Database, statements: Statements) -> None:
    pulse = Pulse(database, services(app).keys)
    with viewers(VIEWERS) as watching:
        streams = [stream for stream, _ in watching]
        pulse.feed(streams)
        assert all(stream.is_drained for stream in streams), "the first marks are no change"
        database.fetch(text("UPDATE catalog_revision SET revision = revision + 1 WHERE id = 'flow'"))
        statements.clear()
        pulse.feed(streams)
        assert len(statements.texts) == 1
        for stream, there in watching:
            stream.send(0.0)
            assert there.recv(1000) == b"event: changed\ndata: flow\n\n"
        pulse.feed(streams)
        assert all(stream.is_drained for stream in streams)


def test_stream_without_a_session_ends_for_good(app: Flask, database: Database) -> None:
    answer = Visitor(app).browser.get("/console/pulse", headers={"Accept": "text/event-stream"})
    assert (answer.status_code, answer.data) == (204, b"")


def test_server_without_streams_lets_pages_poll(app: Flask, database: Database) -> None:
    visitor = Visitor(app, Scope.READ)
    answer = visitor.browser.get("/console/pulse", headers={"Accept": "text/event-stream"})
    assert (answer.status_code, answer.mimetype) == (200, "text/event-stream")
    assert answer.data.startswith(b"retry: 6")
