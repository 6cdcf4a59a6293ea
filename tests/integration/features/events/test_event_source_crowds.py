"""Crowds of EventSource clients: no refusal stops a reader for good, and each reader gets every event."""

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import requests

from app.kernel import ids
from tests.integration.http.web_process import Web, key_for
from tests.integration.registered import http_endpoint, one_shot
from tests.waiting import HUNG_SECONDS, eventually

CLIENTS = 200


class EventSource(threading.Thread):
    """Client that connects and reconnects by the rules of the HTML standard, until it has an event."""

    def __init__(self, web: Web, key: str, together: threading.Barrier) -> None:
        super().__init__(daemon=True)
        self._web = web
        self._headers = {"Authorization": f"Bearer {key}", "Accept": "text/event-stream"}
        self._together = together
        self._retry_seconds = 1.0
        self.connections = 0
        self.is_open = threading.Event()
        self.has_stopped = False  # for good
        self.event: str | None = None

    def run(self) -> None:
        self._together.wait()
        while self.event is None and not self.has_stopped:
            self.connections += 1
            with contextlib.suppress(OSError):  # a network error: the client reconnects
                self._follow()
            if self.event is None:
                time.sleep(self._retry_seconds)

    def _follow(self) -> None:
        with closing(http.client.HTTPConnection("127.0.0.1", self._web.port, timeout=60)) as connection:
            connection.request("GET", "/events?kind=job", headers=self._headers)
            answer = connection.getresponse()
            kind = answer.headers.get_content_type()
            self.has_stopped = (answer.status, kind) != (200, "text/event-stream")
            while not self.has_stopped and self.event is None and (line := answer.readline().decode()):
                self._take(line.rstrip("\n"))

    def _take(self, line: str) -> None:
        name, _, value = line.partition(": ")
        if name == "retry":
            self._retry_seconds = int(value) / 1000
        elif name == "id":
            self._headers["Last-Event-ID"] = value
            self.is_open.set()
        elif name == "data":
            self.event = json.loads(value)["job_id"]


@contextmanager
def crowd(web: Web, key: str) -> Iterator[list[EventSource]]:
    together = threading.Barrier(CLIENTS)
    clients = [EventSource(web, key, together) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    yield clients
    for client in clients:
        client.join(HUNG_SECONDS)


def create(web: Web, key: str) -> str:
    job = one_shot(ids.job_id())
    answer = requests.post(f"{web.base}/jobs", json=job, headers={"Authorization": f"Bearer {key}"}, timeout=60)
    assert answer.status_code == 201, answer.text
    found: str = answer.json()["job_id"]
    return found


@pytest.mark.parametrize(
    "settings",
    [
        {"TE_WEB_THREADS": "1", "TE_WEB_QUEUE": "1"},
        {"TE_WEB_WAITING": "150", "TE_WEB_WAITING_PER_KEY": "150"},
        {"TE_WEB_WAITING": "300", "TE_WEB_WAITING_PER_KEY": "150"},
        {"TE_RATE_LIMIT": "100/second"},
    ],
    ids=["busy", "full", "full for the key", "rate"],
)
def test_200_clients_that_connect_together_all_get_an_event(database_url: str, settings: dict[str, str]) -> None:
    key, other = key_for(database_url), key_for(database_url)
    with Web(database_url, **settings) as web:
        eventually(web.is_ready, what="the API")
        head = {"Authorization": f"Bearer {other}"}
        requests.post(f"{web.base}/endpoints", json=http_endpoint(), headers=head, timeout=60)
        with crowd(web, key) as clients:
            most = int(settings.get("TE_WEB_WAITING_PER_KEY", CLIENTS))
            eventually(lambda: sum(client.is_open.is_set() for client in clients) >= most, what="open streams")
            created = [create(web, other)]
            # Clients that got no slot yet connect once the first clients are gone; their streams begin then.
            eventually(lambda: sum(client.event is None for client in clients) <= CLIENTS - most)
            while any(client.event is None and not client.has_stopped for client in clients):
                created.append(create(web, other))
                time.sleep(0.2)
        assert [client for client in clients if client.has_stopped] == []
        assert {client.event for client in clients} <= set(created)
        assert sum(client.connections for client in clients) > CLIENTS, "no client was refused"
