"""Misbehaving scrapers: more connections than a server accepts. Each sends one byte and waits, or reads nothing."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress

MOST = 200


@contextmanager
def slow_scrapers(port: int) -> Iterator[None]:
    """Hold many connections to a port; the server may refuse or close any connection."""
    with ExitStack() as held:
        for number in range(MOST):
            sock = held.enter_context(closing(socket.socket()))
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            with suppress(OSError):
                sock.connect(("127.0.0.1", port))
            with suppress(OSError):
                sock.send(b"GET /metrics HTTP/1.1\r\n\r\n" if number % 2 else b"G")
        yield
