"""A loopback proxy that speaks enough of PostgreSQL's protocol to break one commit in a chosen way.

It knows where a message begins and ends, so it can lose a statement before the server sees it, lose its answer once it
is committed, or put an error in the place of either. A statement inside a transaction is broken at its COMMIT.
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104
_LENGTH = struct.Struct("!I")


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to a commit: `committed` or not, and the link drops unless a SQLSTATE is answered."""

    committed: bool
    sqlstate: str | None = None

    def __str__(self) -> str:
        when = "after" if self.committed else "before"
        return f"{self.sqlstate or 'link lost'} {when} the commit"

    @property
    def is_fatal(self) -> bool:
        """Tell whether the server ends the session with it."""
        return self.sqlstate is None or self.sqlstate.startswith("57P")


FAULTS = [
    Fault(committed=False),
    Fault(committed=True),
    Fault(committed=False, sqlstate="40001"),
    Fault(committed=False, sqlstate="40P01"),
    Fault(committed=False, sqlstate="40003"),
    Fault(committed=True, sqlstate="40003"),
    Fault(committed=False, sqlstate="57P01"),
    Fault(committed=True, sqlstate="57P01"),
]


class PgProxy:
    """Stands in front of a local server; a context manager. `arm` breaks the next statement with these words."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._armed: tuple[str, Fault] | None = None
        self._meanwhile: Callable[[], object] | None = None
        self.fired = 0
        self._links: list[_Link] = []
        self._thread = threading.Thread(target=self._accept, name="pg-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        # A close alone does not wake a thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for link in self._links:
            link.drop()
            link.join()

    def arm(self, words: str, fault: Fault, *, meanwhile: Callable[[], object] | None = None) -> None:
        """Break the next statement that contains these words, once.

        `meanwhile` is what others do after a commit of which the client does not know yet.
        """
        with self._lock:
            self._armed = (words, fault)
            self._meanwhile = meanwhile

    def take(self, query: str) -> Fault | None:
        """Hand out the fault that is meant for a query."""
        with self._lock:
            if self._armed is None or self._armed[0] not in query:
                return None
            fault = self._armed[1]
            self._armed = None
            return fault

    def is_committed(self) -> None:
        """Let the others do what they do meanwhile."""
        if self._meanwhile is not None:
            self._meanwhile()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            link = _Link(self, client, socket.create_connection(("127.0.0.1", self._server_port)))
            self._links.append(link)
            link.start()


class _Link:
    """One connection. The protocol takes turns, so the two threads never write to the same side at once."""

    def __init__(self, proxy: PgProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._status = b"I"
        self._pending: Fault | None = None  # meant for a statement of the transaction that is open
        self._when_ready: Callable[[], None] | None = None
        self._threads = [
            threading.Thread(target=self._guard, args=[run], daemon=True) for run in (self._up, self._down)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(5)
        self._client.close()
        self._server.close()

    def drop(self) -> None:
        """End both sides."""
        for side in (self._client, self._server):
            with contextlib.suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def _guard(self, run: Callable[[], None]) -> None:
        with contextlib.suppress(OSError, EOFError):
            run()
        self.drop()

    def _up(self) -> None:
        self._server.sendall(self._startup())
        while True:
            kind, body = _read(self._client)
            query = body[:-1].decode(errors="replace") if kind == b"Q" else ""
            fault = self._fault_for(query)
            if fault is None:
                self._server.sendall(_message(kind, body))
            else:
                self._proxy.fired += 1
                self._break(kind, body, query, fault)

    def _startup(self) -> bytes:
        while True:
            head = _exactly(self._client, 8)
            length, code = struct.unpack("!II", head)
            if code not in {_SSL_REQUEST, _GSS_REQUEST}:
                return head + _exactly(self._client, length - 8)
            self._client.sendall(b"N")

    def _fault_for(self, query: str) -> Fault | None:
        if not query:
            return None
        if query == "COMMIT":
            fault, self._pending = self._pending, None
            return fault
        if query == "ROLLBACK":
            self._pending = None
        fault = self._proxy.take(query)
        if fault is not None and self._status == b"T":
            self._pending = fault
            return None
        return fault

    def _break(self, kind: bytes, body: bytes, query: str, fault: Fault) -> None:
        if fault.committed:
            self._when_ready = lambda: self._answer(fault)
            self._server.sendall(_message(kind, body))
        elif query == "COMMIT" and not fault.is_fatal:
            # The server must undo what the client is going to believe undone.
            self._when_ready = lambda: self._answer(fault)
            self._server.sendall(_message(b"Q", b"ROLLBACK\0"))
        else:
            self._answer(fault)

    def _answer(self, fault: Fault) -> None:
        if fault.committed:
            self._proxy.is_committed()
        if fault.sqlstate is not None:
            severity = b"FATAL" if fault.is_fatal else b"ERROR"
            fields = [b"S" + severity, b"V" + severity, b"C" + fault.sqlstate.encode(), b"Minjected", b""]
            self._client.sendall(_message(b"E", b"\0".join(fields) + b"\0"))
        if fault.is_fatal:
            self.drop()
        else:
            self._client.sendall(_message(b"Z", b"I"))

    def _down(self) -> None:
        while True:
            kind, body = _read(self._server)
            if kind == b"Z":
                self._status = body
            if self._when_ready is None:
                self._client.sendall(_message(kind, body))
            elif kind == b"Z":
                action, self._when_ready = self._when_ready, None
                action()


def _read(side: socket.socket) -> tuple[bytes, bytes]:
    kind = _exactly(side, 1)
    (length,) = _LENGTH.unpack(_exactly(side, 4))
    return kind, _exactly(side, length - 4)


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + _LENGTH.pack(len(body) + 4) + body


def _exactly(side: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = side.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data
