"""The TCP proxy: it passes, cuts, stalls, drops, redirects or edits the data of its connections."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from app.dev.process.proxy import Mode, Passage, Proxy


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that returns the data that it receives."""

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
def proxy(echo: int) -> Iterator[Proxy]:
    with Proxy(echo) as opened:
        yield opened


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=5)


def ask(connection: socket.socket, data: bytes = b"hello") -> bytes:
    connection.sendall(data)
    return connection.recv(100)


def is_over(connection: socket.socket) -> bool:
    """Wait for data or the end of the connection; return whether the connection has ended."""
    try:
        return connection.recv(100) == b""
    except ConnectionError:
        return True


def test_proxy_passes_data(proxy: Proxy) -> None:
    with closing(connect(proxy)) as connection:
        assert ask(connection) == b"hello"
        assert ask(connection, b"again") == b"again"


def test_cut_closes_connections_and_refuses_new_connections(proxy: Proxy) -> None:
    with closing(connect(proxy)) as connection:
        assert ask(connection) == b"hello"
        proxy.set(Mode.CUT)
        assert is_over(connection)
    with closing(connect(proxy)) as refused:
        assert is_over(refused)
    proxy.set(Mode.PASS)
    with closing(connect(proxy)) as connection:
        assert ask(connection) == b"hello"


def test_stall_delays_data_and_loses_nothing(proxy: Proxy) -> None:
    with closing(connect(proxy)) as connection:
        assert ask(connection) == b"hello"
        proxy.set(Mode.STALL)
        connection.sendall(b"late")
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(100)
        connection.settimeout(5)
        proxy.set(Mode.PASS)
        assert connection.recv(100) == b"late"


def test_drop_loses_data_and_resets_connections_when_it_ends(proxy: Proxy) -> None:
    with closing(connect(proxy)) as connection:
        assert ask(connection) == b"hello"
        proxy.set(Mode.DROP)
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ask(connection, b"gone")
        connection.settimeout(5)
        proxy.set(Mode.PASS)
        assert is_over(connection)


def test_new_connections_are_redirected(proxy: Proxy) -> None:
    with closing(connect(proxy)) as before, socket.create_server(("127.0.0.1", 0)) as other:
        assert ask(before) == b"hello"
        proxy.redirect(other.getsockname()[1])
        with closing(connect(proxy)) as after, closing(other.accept()[0]) as accepted:
            after.sendall(b"there")
            assert accepted.recv(100) == b"there"
        assert ask(before, b"still") == b"still"


class Editor(Passage):
    """A passage that changes data, drops the request `lose`, and closes the connection after the request `bye`."""

    async def request(self, data: bytes) -> bytes:
        if data == b"lose":
            self.tell(b"lost")
            return b""
        return data.upper()

    async def answer(self, data: bytes) -> bytes:
        if data == b"BYE":
            self.tell(b"last words")
            raise ConnectionResetError
        return data + b"!"


class EditingProxy(Proxy):
    def passage(self, client: asyncio.StreamWriter) -> Passage:
        return Editor(client)


def test_passage_can_change_data_drop_data_and_close_connections(echo: int) -> None:
    with EditingProxy(echo) as proxy, closing(connect(proxy)) as connection:
        assert ask(connection) == b"HELLO!"
        assert ask(connection, b"lose") == b"lost"
        assert ask(connection, b"bye") == b"last words"
        assert is_over(connection)


def test_url_is_rewritten_to_the_proxy(proxy: Proxy) -> None:
    assert proxy.url("postgresql://me:secret@db.example:5432/jobs?a=b") == (
        f"postgresql://me:secret@127.0.0.1:{proxy.port}/jobs?a=b"
    )
    assert proxy.url("redis://cache:6379/0") == f"redis://127.0.0.1:{proxy.port}/0"
