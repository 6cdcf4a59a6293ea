"""Streams at one position with different filters: each page is read once, and each stream gets its own events."""

import json
import socket

from sqlalchemy import text

from app.features.events import store as events_store
from app.features.events.event import EventFilter, EventPosition
from app.features.events.stream import Stream, Subscription
from app.features.events.streams import serve
from app.kernel.db import Database
from app.kernel.formats import EPOCH
from app.queue.reading.horizon import horizon
from tests import rows
from tests.waiting import HUNG_SECONDS, eventually

LABEL = text("UPDATE jobs SET labels = jsonb_build_object('team', 'a') WHERE job_id = :job_id RETURNING job_id")


def test_stream_that_filters_by_labels_gets_matching_events_only(database: Database) -> None:
    labelled, other = rows.add_executions(database, 2)
    database.fetch(LABEL, {"job_id": rows.job_of(database, labelled).job_id})
    for number, execution_id in enumerate((labelled, other), 1):
        rows.add_attempt(database, execution_id, number, "FAILED")
    eventually(
        lambda: len(events_store.read(database, EventPosition(EPOCH), horizon(database), {"attempt"}).events) == 2
    )
    attempts = frozenset({"attempt"})
    wanted = (EventFilter(kinds=attempts, labels={"team": "a"}), EventFilter(kinds=attempts))
    pairs = [socket.socketpair() for _ in wanted]
    streams = [
        Stream(Subscription(each, EventPosition(EPOCH), "key"), ours, lambda _whole: None, chunked=False, ends_at=1e9)
        for each, (ours, _) in zip(wanted, pairs, strict=True)
    ]
    serve(database, streams)
    got = []
    for stream, (ours, client) in zip(streams, pairs, strict=True):
        client.settimeout(HUNG_SECONDS)
        assert stream.send(0.0)
        lines = client.recv(65_536).decode().splitlines()
        got.append({json.loads(line[6:])["execution_id"] for line in lines if line.startswith("data: ")})
        ours.close()
        client.close()
    assert got == [{labelled}, {labelled, other}]
