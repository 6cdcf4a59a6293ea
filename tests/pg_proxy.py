"""PostgreSQL proxy that breaks one commit in a chosen way.

The proxy parses message boundaries. It can drop a statement before the server reads it, drop the answer after the
commit, or replace either with an error. A statement inside a transaction is broken at its COMMIT.
"""

import asyncio
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from app.dev.process.proxy import Passage, Proxy

_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104
_START = struct.Struct("!II")  # length and code of the first message, which has no kind byte
_HEAD = struct.Struct("!cI")


@dataclass(frozen=True, slots=True)
class Fault:
    """Failure of a commit: `committed` or not; the connection drops, or the client gets an error with `sqlstate`."""

    committed: bool
    sqlstate: str | None = None

    def __str__(self) -> str:
        when = "after" if self.committed else "before"
        return f"{self.sqlstate or 'link lost'} {when} the commit"

    @property
    def is_fatal(self) -> bool:
        """Return whether the server ends the session after this error."""
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


class PgProxy(Proxy):
    """Proxy in front of a local server. `arm` breaks the next statement that contains given words.

    A message larger than `largest` closes the connection; `longest` is the size of the largest message so far.
    """

    def __init__(self, server_port: int, *, largest: int | None = None) -> None:
        super().__init__(server_port)
        self.largest = largest
        self.longest = 0
        self._lock = threading.Lock()
        self._armed: tuple[str, Fault] | None = None
        self.after_commit: Callable[[], object] | None = None
        self.fired = 0

    def passage(self, client: asyncio.StreamWriter) -> Passage:
        return _PgPassage(client, self)

    def arm(self, words: str, fault: Fault, *, after_commit: Callable[[], object] | None = None) -> None:
        """Break the next statement that contains these words, once.

        `after_commit` runs after the commit and before the client gets its error: changes made by other processes.
        """
        with self._lock:
            self._armed = (words, fault)
            self.after_commit = after_commit

    def take(self, query: str) -> Fault | None:
        """Return the armed fault if a query matches, and disarm it."""
        with self._lock:
            if self._armed is None or self._armed[0] not in query:
                return None
            fault = self._armed[1]
            self._armed = None
            return fault


class _Messages:
    """Splits a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = b""

    def start(self, data: bytes) -> tuple[bytes, int] | None:
        """Add bytes and take the first message of a connection, with its code; None while the message is incomplete."""
        self._buffer += data
        if len(self._buffer) < _START.size:
            return None
        length, code = _START.unpack_from(self._buffer)
        return None if len(self._buffer) < length else (self._take(length), code)

    def read(self, data: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Add bytes and yield the kind and the body of each complete message."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._buffer)
            if len(self._buffer) < 1 + length:
                return
            yield kind, self._take(1 + length)[_HEAD.size :]

    def _take(self, length: int) -> bytes:
        taken, self._buffer = self._buffer[:length], self._buffer[length:]
        return taken


class _PgPassage(Passage):
    """One session. Requests and answers alternate in the protocol, so only one direction writes to the client."""

    def __init__(self, client: asyncio.StreamWriter, proxy: PgProxy) -> None:
        super().__init__(client)
        self._proxy = proxy
        self._requests, self._answers = _Messages(), _Messages()
        self._is_started = False
        self._status = b"I"
        self._prepared: dict[str, str] = {}  # statement texts by name
        self._pending: Fault | None = None  # fault of a statement in the open transaction
        self._when_ready: Fault | None = None  # fault that replaces the server's answer

    async def request(self, data: bytes) -> bytes:
        """Forward messages, except the message to be broken."""
        passed = b""
        if not self._is_started:
            passed, data = self._start(data), b""
        for kind, body in self._requests.read(data) if self._is_started else ():
            passed += await self._pass(kind, body)
        return passed

    async def answer(self, data: bytes) -> bytes:
        """Forward messages, or discard them until the server is ready and send the fault instead."""
        passed = b""
        for kind, body in self._answers.read(data):
            if kind == b"Z":
                self._status = body
            if self._when_ready is None:
                passed += _message(kind, body)
            elif kind == b"Z":
                fault, self._when_ready = self._when_ready, None
                self.tell(passed)
                passed = b""
                await self._send_fault(fault)
        return passed

    def _start(self, data: bytes) -> bytes:
        """Refuse encryption, and forward the first real message."""
        found = self._requests.start(data)
        while found is not None:
            message, code = found
            if code not in {_SSL_REQUEST, _GSS_REQUEST}:
                self._is_started = True
                return message
            self.tell(b"N")
            found = self._requests.start(b"")
        return b""

    async def _pass(self, kind: bytes, body: bytes) -> bytes:
        self._proxy.longest = max(self._proxy.longest, len(body))
        if self._proxy.largest is not None and len(body) > self._proxy.largest:
            raise ConnectionResetError
        fault = self._fault_for(self._text_of(body[:-1].decode(errors="replace") if kind == b"Q" else ""))
        if fault is None:
            return _message(kind, body)
        self._proxy.fired += 1
        if fault.committed:
            self._when_ready = fault
            return _message(kind, body)
        if body == b"COMMIT\0" and not fault.is_fatal:
            # The client will assume that the transaction is undone, so undo it on the server.
            self._when_ready = fault
            return _message(b"Q", b"ROLLBACK\0")
        await self._send_fault(fault)
        return b""

    def _text_of(self, query: str) -> str:
        """Return the statement that a query runs: the prepared text for EXECUTE, an empty text for PREPARE."""
        if query.startswith("PREPARE "):
            name, _, text = query.removeprefix("PREPARE ").partition(" AS ")
            self._prepared[name] = text
            return ""
        if query.startswith("EXECUTE "):
            return self._prepared[query.removeprefix("EXECUTE ").partition("(")[0]]
        return query

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

    async def _send_fault(self, fault: Fault) -> None:
        if fault.committed and self._proxy.after_commit is not None:
            # On a thread: the callback may use this proxy, which runs on the event loop.
            await asyncio.to_thread(self._proxy.after_commit)
        if fault.sqlstate is not None:
            severity = b"FATAL" if fault.is_fatal else b"ERROR"
            fields = [b"S" + severity, b"V" + severity, b"C" + fault.sqlstate.encode(), b"Minjected", b""]
            self.tell(_message(b"E", b"\0".join(fields) + b"\0"))
        if fault.is_fatal:
            raise ConnectionResetError
        self.tell(_message(b"Z", b"I"))


def _message(kind: bytes, body: bytes) -> bytes:
    return _HEAD.pack(kind, len(body) + 4) + body
