"""Metrics server: each client gets its answer or is disconnected, and no client delays another."""

import select
import socket
from collections.abc import Callable, Iterator
from contextlib import closing

import psutil
import pytest
import requests

from app.dev.process.ports import free_port
from app.kernel.metrics.scrape_server import MAX_CONNECTIONS, MetricsServer
from tests.slow_scrapers import slow_scrapers
from tests.waiting import eventually

TEXT = b"# a long answer\n" * 200_000  # larger than the buffers of the sockets

Serve = Callable[..., MetricsServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[MetricsServer] = []

    def start(port: int, **options: float) -> MetricsServer:
        server = MetricsServer(f"127.0.0.1:{port}", lambda: TEXT, **options)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        assert server.stop(60)


def ask(port: int, path: str = "/metrics", method: str = "GET") -> requests.Response | None:
    try:
        return requests.request(method, f"http://127.0.0.1:{port}{path}", timeout=60)
    except requests.ConnectionError:
        return None


def test_server_answers_metrics_and_nothing_else(serve: Serve) -> None:
    port = free_port()
    serve(port)
    answer = eventually(lambda: ask(port, "/metrics?x=1"))
    assert (answer.status_code, answer.content) == (200, TEXT)
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    for method, path, status in (("GET", "/", 404), ("POST", "/metrics", 405)):
        refused = ask(port, path, method)
        assert refused is not None
        assert refused.status_code == status
    with closing(socket.create_connection(("127.0.0.1", port), timeout=60)) as endless:
        endless.sendall(b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 2000)
        assert endless.recv(1) == b"", "a request head without an end must be cut off"


def test_connections_that_read_nothing_are_dropped_for_a_working_client(serve: Serve) -> None:
    port = free_port()
    serve(port)
    eventually(lambda: ask(port))
    with slow_scrapers(port):
        assert eventually(lambda: ask(port)).content == TEXT
        assert 1 < connections_of_the_server(port) <= MAX_CONNECTIONS


def connections_of_the_server(port: int) -> int:
    """Count the connections of the server, which runs in this process."""
    found = psutil.Process().net_connections(kind="tcp")
    return sum(each.laddr.port == port and each.status != psutil.CONN_LISTEN for each in found)


def test_second_server_takes_the_address_over(serve: Serve) -> None:
    port = free_port()
    first = serve(port)
    eventually(lambda: ask(port))
    serve(port)
    assert first.stop(60)
    assert eventually(lambda: ask(port)).content == TEXT


def test_client_that_reads_nothing_is_disconnected_in_time(serve: Serve) -> None:
    port = free_port()
    serve(port, patience_seconds=0.2)
    with closing(socket.socket()) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        eventually(lambda: sock.connect_ex(("127.0.0.1", port)) == 0)
        sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        eventually(lambda: select.select([sock], [], [], 60)[0])
        eventually(lambda: connections_of_the_server(port) == 0, what="the end of the connection")
        assert len(b"".join(iter(lambda: sock.recv(65_536), b""))) < len(TEXT)
