"""Overload: more requests than threads, in a real gunicorn."""

import json
import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import psycopg2
import pytest
import requests

from tests.cleared import libpq_url
from tests.integration.http.web_process import Web, key_for
from tests.integration.registered import http_endpoint, one_shot
from tests.waiting import HUNG_SECONDS, eventually

THREADS = 2
QUEUE = 4
CLIENTS = 200


@pytest.fixture(scope="module")
def key(module_database_url: str) -> str:
    return key_for(module_database_url)


@pytest.fixture(scope="module")
def web(module_database_url: str, key: str) -> Iterator[Web]:
    with Web(module_database_url, TE_WEB_THREADS=str(THREADS), TE_WEB_QUEUE=str(QUEUE)) as web:
        eventually(web.is_ready, what="the API")
        headers = {"Authorization": f"Bearer {key}"}
        assert requests.post(f"{web.base}/endpoints", json=http_endpoint(), headers=headers, timeout=60).ok
        yield web


@contextmanager
def held_endpoint(url: str) -> Iterator[None]:
    """Lock the row of the endpoint, for which every new job waits."""
    with closing(psycopg2.connect(libpq_url(url))) as connection:
        connection.cursor().execute("SELECT 1 FROM endpoints WHERE name = 'target' FOR UPDATE")
        yield


class Clients:
    """Connections that each send a request to create a job, and the answers received."""

    def __init__(self, web: Web, key: str, stack: ExitStack) -> None:
        self._web, self._key, self._stack = web, key, stack
        self._selector = stack.enter_context(selectors.DefaultSelector())
        self.answers: list[tuple[int, dict[str, str], dict[str, Any]]] = []

    def connect(self) -> socket.socket:
        return self._stack.enter_context(socket.create_connection(("127.0.0.1", self._web.port), timeout=HUNG_SECONDS))

    def send(self, name: str) -> None:
        body = json.dumps(one_shot(name)).encode()
        head = (
            f"POST /jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self._key}\r\nX-Request-ID: {name}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        connection = self.connect()
        connection.sendall(head.encode() + body)
        self._selector.register(connection, selectors.EVENT_READ, name)

    def wait_for(self, answers: int) -> None:
        """Wait until this many answers are complete."""
        while len(self.answers) < answers:
            for ready, _ in self._selector.select(HUNG_SECONDS):
                assert isinstance(ready.fileobj, socket.socket)
                self._selector.unregister(ready.fileobj)
                self._take(ready.fileobj, ready.data)

    def _take(self, connection: socket.socket, name: str) -> None:
        head, _, body = b"".join(iter(lambda: connection.recv(65_536), b"")).partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        assert headers["x-request-id"] == name
        self.answers.append((int(status.split()[1]), headers, json.loads(body)))


@pytest.fixture
def clients(web: Web, key: str) -> Iterator[Clients]:
    with ExitStack() as stack:
        yield Clients(web, key, stack)


def test_excess_requests_are_refused_at_once_while_health_is_answered(
    web: Web, key: str, clients: Clients, module_database_url: str
) -> None:
    with held_endpoint(module_database_url):
        for number in range(CLIENTS):
            clients.send(f"refused-{number}")
        clients.wait_for(CLIENTS - THREADS - QUEUE)
        for path in ("/health/live", "/health/ready"):
            assert requests.get(web.base + path, timeout=60).status_code == 200
        for status, headers, body in clients.answers:
            assert (status, body["error"]["code"], body["error"]["retryable"]) == (503, "SERVICE_UNAVAILABLE", True)
            assert 1 <= int(headers["retry-after"]) <= 3
            assert headers["x-request-id"] == body["error"]["request_id"]
    refused = len(clients.answers)
    clients.wait_for(CLIENTS)
    assert {status for status, *_ in clients.answers[refused:]} == {201}
    assert "refused requests with 503: 1;" in web.log
    metrics = requests.get(f"{web.base}/metrics", headers={"Authorization": f"Bearer {key}"}, timeout=60).text
    counted = 'task_executor_http_requests_total{method="none",route="none",status_class="5xx"}'
    assert f"{counted} {refused:.1f}" in metrics


def test_request_that_waits_too_long_for_a_thread_is_refused(database_url: str) -> None:
    key = key_for(database_url)
    with Web(database_url, TE_WEB_THREADS="1", TE_REQUEST_TIMEOUT_SEC="4") as web, ExitStack() as stack:
        eventually(web.is_ready, what="the API")
        headers = {"Authorization": f"Bearer {key}"}
        assert requests.post(f"{web.base}/endpoints", json=http_endpoint(), headers=headers, timeout=60).ok
        clients = Clients(web, key, stack)
        with held_endpoint(database_url):
            for number in range(5):
                clients.send(f"waits-{number}")
            clients.wait_for(4)
            assert {status for status, *_ in clients.answers} == {503}
            assert {body["error"]["message"] for _, _, body in clients.answers} == {
                "The server is busy; the request was not processed. Retry later."
            }


def test_silent_clients_hold_no_thread_and_no_slot_of_the_queue(web: Web, clients: Clients) -> None:
    for _ in range(4 * (THREADS + QUEUE)):
        clients.connect()
    clients.send("speaks")
    clients.wait_for(1)
    assert [status for status, *_ in clients.answers] == [201]


def test_clients_that_never_close_their_side_delay_no_other_client(
    web: Web, clients: Clients, module_database_url: str
) -> None:
    """Such clients get their complete answer; bytes that they send afterwards are discarded."""
    with held_endpoint(module_database_url):
        for number in range(THREADS + QUEUE):
            clients.send(f"served-{number}")
        eventually(lambda: requests.post(f"{web.base}/jobs", timeout=60).status_code == 503)
        for _ in range(20):
            connection = clients.connect()
            connection.sendall(b"POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")
            assert b" 503 " in b"".join(iter(lambda: connection.recv(65_536), b""))  # noqa: B023 - used at once
            connection.sendall(b"x" * 100_000)
        assert requests.get(f"{web.base}/health/live", timeout=60).status_code == 200
    clients.wait_for(THREADS + QUEUE)
    assert {status for status, *_ in clients.answers} == {201}
