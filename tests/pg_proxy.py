"""Proxy that speaks enough of PostgreSQL's protocol to break one commit in a chosen way.

It knows where a message begins and ends, so it can lose a statement before the server sees it, lose its answer once it
is committed, or put an error in the place of either. A statement inside a transaction is broken at its COMMIT.
"""

import asyncio
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from app.dev.process.proxy import Passage, Proxy

_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104
_START = struct.Struct("!II")  # the length and the code of the first message, which has no kind
_HEAD = struct.Struct("!cI")


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
        """Return whether the server ends the session with it."""
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
    """Stands in front of a local server. `arm` breaks the next statement with these words.

    It hangs up at a message that is larger than `largest`, and notes the `longest`.
    """

    def __init__(self, server_port: int, *, largest: int | None = None) -> None:
        super().__init__(server_port, passage=lambda client: _PgPassage(client, self))
        self.largest = largest
        self.longest = 0
        self._lock = threading.Lock()
        self._armed: tuple[str, Fault] | None = None
        self.meanwhile: Callable[[], object] | None = None
        self.fired = 0

    def arm(self, words: str, fault: Fault, *, meanwhile: Callable[[], object] | None = None) -> None:
        """Break the next statement that contains these words, once.

        `meanwhile` is what others do after a commit of which the client does not know yet.
        """
        with self._lock:
            self._armed = (words, fault)
            self.meanwhile = meanwhile

    def take(self, query: str) -> Fault | None:
        """Hand out the fault that is meant for a query."""
        with self._lock:
            if self._armed is None or self._armed[0] not in query:
                return None
            fault = self._armed[1]
            self._armed = None
            return fault


class _Messages:
    """Cuts a stream of bytes into messages."""

    def __init__(self) -> None:
        self._buffer = b""

    def start(self, data: bytes) -> tuple[bytes, int] | None:
        """Add bytes and take the first message of a connection, with its code; None while it is incomplete."""
        self._buffer += data
        if len(self._buffer) < _START.size:
            return None
        length, code = _START.unpack_from(self._buffer)
        return None if len(self._buffer) < length else (self._take(length), code)

    def read(self, data: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Add bytes and yield each whole message: its kind and its body."""
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
    """One session. The protocol takes turns, so that both directions never speak to the client at once."""

    def __init__(self, client: asyncio.StreamWriter, proxy: PgProxy) -> None:
        super().__init__(client)
        self._proxy = proxy
        self._requests, self._answers = _Messages(), _Messages()
        self._is_started = False
        self._status = b"I"
        self._prepared: dict[str, str] = {}  # texts by their names
        self._pending: Fault | None = None  # meant for a statement of the transaction that is open
        self._when_ready: Fault | None = None  # told to the client in place of what the server answers

    async def request(self, data: bytes) -> bytes:
        """Pass messages on but for the one that is to be broken."""
        passed = b""
        if not self._is_started:
            passed, data = self._start(data), b""
        for kind, body in self._requests.read(data) if self._is_started else ():
            passed += await self._pass(kind, body)
        return passed

    async def answer(self, data: bytes) -> bytes:
        """Pass messages on, or hold them back until the server is ready and tell the fault instead."""
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
                await self._tell(fault)
        return passed

    def _start(self, data: bytes) -> bytes:
        """Refuse encryption, and pass the first real message on."""
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
            # The server must undo what the client is going to believe undone.
            self._when_ready = fault
            return _message(b"Q", b"ROLLBACK\0")
        await self._tell(fault)
        return b""

    def _text_of(self, query: str) -> str:
        """Return what a query runs: for a prepared statement its text, and nothing for what prepares it."""
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

    async def _tell(self, fault: Fault) -> None:
        if fault.committed and self._proxy.meanwhile is not None:
            # On a thread: the others may come through this very proxy.
            await asyncio.to_thread(self._proxy.meanwhile)
        if fault.sqlstate is not None:
            severity = b"FATAL" if fault.is_fatal else b"ERROR"
            fields = [b"S" + severity, b"V" + severity, b"C" + fault.sqlstate.encode(), b"Minjected", b""]
            self.tell(_message(b"E", b"\0".join(fields) + b"\0"))
        if fault.is_fatal:
            raise ConnectionResetError
        self.tell(_message(b"Z", b"I"))


def _message(kind: bytes, body: bytes) -> bytes:
    return _HEAD.pack(kind, len(body) + 4) + body
