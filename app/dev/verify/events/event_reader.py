"""Client of the event stream that reconnects again and again with the id of its last event, and ends with the list."""

import json
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from typing import Any

import requests

from app.dev.stack.stack_client import Api
from app.dev.verify.evidence import SeenEvent
from app.features.events.event import EventPosition
from app.kernel.threads import BackgroundThread

_KINDS = "attempt,execution,job"
_RETRY_SECONDS = 0.2
_PAGE = 200
_SILENCE_SECONDS = 5.0  # then the client connects again
_MAX_CONNECTION_SECONDS = 10.0


class EventReader(BackgroundThread):
    """Thread that reads all events of jobs, executions and attempts from an instant on."""

    def __init__(self, base_url: str, key: str, *, seed: int) -> None:
        super().__init__("te-verify-events")
        self._api = Api(base_url, key)
        self._dice = random.Random(f"{seed}-events")
        self._place = ""
        self.seen: list[SeenEvent] = []
        """Events in the order in which they came."""
        self.connections = 0

    def read_from(self, since: datetime) -> None:
        """Start to read at an instant of the database's clock."""
        self._place = str(EventPosition(since))
        self.start()

    def has_all(self, instant: datetime) -> bool:
        """Read a page of the list behind the last event; return whether it has all events before an instant.

        Raises requests.RequestException or ApiError if the API cannot answer.
        """
        page = self._api.get("/events", after=self._place, kind=_KINDS, limit=_PAGE)
        for event in page["items"]:
            self._add(event["event_id"], event)
        self._place = page["next"]
        place = EventPosition.parse(self._place)
        return place is not None and place.at >= instant

    def _add(self, event_id: str, event: Mapping[str, Any]) -> None:
        self.seen.append(SeenEvent(event_id, event["kind"], event["execution_id"] or event["job_id"]))

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                self._read(time.monotonic() + self._dice.uniform(0.0, _MAX_CONNECTION_SECONDS))
            except requests.RequestException:
                self.stopping.wait(_RETRY_SECONDS)

    def _read(self, until: float) -> None:
        """Read from a new connection until an instant of the monotonic clock."""
        headers = {"Accept": "text/event-stream", "Last-Event-ID": self._place}
        response = self._api.request(
            "GET", "/events", params={"kind": _KINDS}, headers=headers, stream=True, timeout=_SILENCE_SECONDS
        )
        with closing(response):
            response.raise_for_status()
            self.connections += 1
            for place, data in _messages(response.iter_lines(chunk_size=1024)):
                if data:
                    self._add(place, json.loads(data))
                self._place = place
                if self.stopping.is_set() or time.monotonic() >= until:
                    return


def _messages(lines: Iterator[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the id and the data of each complete message; a heartbeat has no data."""
    fields = dict[str, str]()
    for line in lines:
        if line:
            name, _, value = line.decode().partition(": ")
            fields[name] = value
        elif "id" in fields:
            yield fields["id"], fields.get("data", "")
            fields.clear()
