"""Kept connections under gunicorn: a thread that waits for the next request delays no other client."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.integration.http.web_process import Web
from tests.waiting import eventually

REQUEST = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
CLIENTS = 6


@pytest.fixture(scope="module")
def web(module_database_url: str) -> Iterator[Web]:
    with Web(module_database_url, TE_WEB_THREADS="2") as web:
        eventually(web.is_ready, what="the API")
        yield web


class Client:
    """Connection that is kept for several requests."""

    def __init__(self, web: Web) -> None:
        self._socket = socket.create_connection(("127.0.0.1", web.port), timeout=60)
        self._reader = self._socket.makefile("rb")

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self._socket.close()

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def status(self) -> int:
        """Read one answer."""
        status, length = int(self._reader.readline().split()[1]), 0
        while (line := self._reader.readline()) != b"\r\n":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        self._reader.read(length)
        return status


def test_pipelined_requests_are_answered_in_order(web: Web) -> None:
    with Client(web) as client:
        client.send(REQUEST * 3)
        assert [client.status() for _ in range(3)] == [200] * 3
        client.send(REQUEST)
        assert client.status() == 200


def test_more_kept_connections_than_threads_are_served(web: Web) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(Client(web)) for _ in range(CLIENTS)]
        for _ in range(20):
            for client in clients:
                client.send(REQUEST)
                assert client.status() == 200


def test_disconnect_of_a_kept_connection_is_no_error(web: Web) -> None:
    for _ in range(20):
        with Client(web) as client:
            client.send(REQUEST)
            assert client.status() == 200
    assert web.refusal("/health/live", {}) is None
    assert "Traceback" not in web.log
    assert "Error" not in web.log
