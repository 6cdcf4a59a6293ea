"""Pulse: a stream that names the kinds of data that have changed; pages then read the regions that show them.

A process reads the marks once a second for all its viewers, and only while somebody watches.
"""

from collections.abc import Iterable

from flask import Blueprint, Response, current_app, g, request

from app.console.access.permission import Permissions
from app.features.events import change_marks
from app.features.events.change_marks import Marks
from app.features.events.event import EventFilter, EventPosition
from app.features.events.stream import Stream, Subscription
from app.features.events.streams import Streams
from app.kernel.access.key_ring import KeyRing
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.web.http import event_stream, suspension
from app.web.http.event_stream import EVENT_STREAM
from app.web.services import services

EXTENSION = "task_executor_pulse"
ROUTE = "pulse"
POLL_SECONDS = 1.0
# Without gunicorn a stream would hold a thread, so that pages poll.
POLLING_SECONDS = 60.0
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Pulse(Streams):
    """Sends the kinds of changed data to all viewers."""

    def __init__(self, database: Database, keys: KeyRing, *, poll_seconds: float = POLL_SECONDS) -> None:
        super().__init__(database, keys, poll_seconds=poll_seconds, name="te-pulse")
        self._read_from = database
        self._marks: Marks = {}

    def feed(self, streams: Iterable[Stream]) -> bool:
        """Read the marks, and send the names of changed marks."""
        marks = change_marks.read(self._read_from)
        names = change_marks.changed(self._marks, marks) if self._marks else []
        self._marks = marks
        for stream in streams:
            if names and stream.has_room:
                stream.put(f"event: changed\ndata: {' '.join(names)}\n\n".encode())
        return False

    def heartbeat(self, stream: Stream) -> bytes:  # noqa: ARG002 - as of all streams
        """Return a comment, which browsers ignore."""
        return b":\n\n"


def register(blueprint: Blueprint, permissions: Permissions) -> None:
    """Add the stream."""
    permissions.declare(ROUTE, None)
    blueprint.add_url_rule("/pulse", ROUTE, _open)


def _open() -> Response:
    if not suspension.is_possible() or request.method != "GET":
        return event_stream.postponed(POLLING_SECONDS)
    suspension.take_slot()
    subscription = Subscription(EventFilter(), EventPosition(EPOCH), g.api_key.key_id)
    return suspension.Streamed(_pulse(), subscription, b"retry: 2000\n\n", EVENT_STREAM, _HEADERS)


def _pulse() -> Pulse:
    """Return the pulse of the application; the first stream starts its thread."""
    found: Pulse = current_app.extensions.setdefault(EXTENSION, Pulse(services().database, services().keys))
    return found
