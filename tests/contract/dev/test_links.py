"""The verifier's way to the database: passing, cut, stalled, and a black hole."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from app.dev.verify.links import Link, Links, Mode


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that sends back what it gets."""

    def serve(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(100):
                connection.sendall(data)

    def accept(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=[connection], daemon=True).start()

    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=accept, args=[listener], daemon=True).start()
    yield listener.getsockname()[1]
    listener.close()


@pytest.fixture
def link(echo: int) -> Iterator[Link]:
    with Links() as links:
        yield links.to(echo)


def connect(link: Link) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), timeout=5)


def ask(connection: socket.socket, data: bytes = b"hello") -> bytes:
    connection.sendall(data)
    return connection.recv(100)


def is_over(connection: socket.socket) -> bool:
    """Wait for what comes next: data, or the end."""
    try:
        return connection.recv(100) == b""
    except ConnectionError:
        return True


def test_it_passes_everything(link: Link) -> None:
    with closing(connect(link)) as connection:
        assert ask(connection) == b"hello"
        assert ask(connection, b"again") == b"again"


def test_a_cut_ends_connections_and_takes_no_new_ones(link: Link) -> None:
    with closing(connect(link)) as connection:
        assert ask(connection) == b"hello"
        link.set(Mode.CUT)
        assert is_over(connection)
    with closing(connect(link)) as refused:
        assert is_over(refused)
    link.set(Mode.PASS)
    with closing(connect(link)) as connection:
        assert ask(connection) == b"hello"


def test_a_stall_delays_and_loses_nothing(link: Link) -> None:
    with closing(connect(link)) as connection:
        assert ask(connection) == b"hello"
        link.set(Mode.STALL)
        connection.sendall(b"late")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        connection.settimeout(5)
        link.set(Mode.PASS)
        assert connection.recv(100) == b"late"


def test_a_black_hole_says_nothing_and_resets_at_its_end(link: Link) -> None:
    with closing(connect(link)) as connection:
        assert ask(connection) == b"hello"
        link.set(Mode.DROP)
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ask(connection, b"gone")
        connection.settimeout(5)
        link.set(Mode.PASS)
        assert is_over(connection)
