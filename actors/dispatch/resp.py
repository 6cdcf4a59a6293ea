"""Redis client of the deliveries: RESP2 connections that carry the commands of many deliveries at a time.

Commands of one loop iteration are one write, and replies arrive in the order of the commands. Nothing is sent twice,
and the length of a reply is bounded.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import cast

from actors.dispatch.send_progress import Progress

MAX_REPLY_BYTES = 65_536  # replies to our commands have 64 bytes at most, or the text of an error
_END = b"\r\n"
_TEMPORARY = ("LOADING", "ERR max number of clients")

_Command = tuple[bytes, Progress | None, "asyncio.Future[bytes]"]


class RefusedError(Exception):
    """Error reply of the server: the command changed nothing."""

    @property
    def is_temporary(self) -> bool:
        """Return whether the server refuses all commands at the moment."""
        return str(self).startswith(_TEMPORARY)


class UnreadableError(Exception):
    """The received bytes are no valid reply to our commands."""


def write_command(arguments: Sequence[str]) -> bytes:
    parts = "".join([f"${_size(part)}\r\n{part}\r\n" for part in arguments])
    return f"*{len(arguments)}\r\n{parts}".encode(errors="replace")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


class ReplyReader:
    """Parser of replies from pieces of any size, without I/O."""

    def __init__(self) -> None:
        self._unread = b""

    def feed(self, data: bytes) -> Iterator[bytes | RefusedError]:
        """Yield the complete replies; raises UnreadableError."""
        unread = self._unread + data if self._unread else data
        place = 0
        while place < len(unread):
            end = unread.find(_END, place, place + MAX_REPLY_BYTES)
            if end < 0:
                break
            kind, line = unread[place : place + 1], unread[place + 1 : end]
            place_after = end + len(_END)
            if kind == b"$":
                length = _length(line)
                place_after += length + len(_END)
                if len(unread) < place_after:
                    break
                line = unread[end + len(_END) : place_after - len(_END)]
            elif kind not in b"+-:":
                raise UnreadableError("a reply of an unexpected type")
            place = place_after
            yield RefusedError(line.decode(errors="replace")) if kind == b"-" else line
        self._unread = unread[place:]
        if len(self._unread) > MAX_REPLY_BYTES + 32:
            raise UnreadableError("a reply without end")


def _length(line: bytes) -> int:
    if not line.isdigit() or len(line) > 9 or int(line) > MAX_REPLY_BYTES:
        raise UnreadableError("a string of an invalid length")
    return int(line)


class RedisConnection(asyncio.Protocol):
    """An open connection, which takes no more commands after its loss or after a command without a reply in time.

    Pending commands are unaffected by the failure of another command, unless the connection breaks.
    """

    def __init__(self, on_unusable: "OnUnusable") -> None:
        self._fault: Exception | None = None  # reason why it takes no more commands
        self._on_unusable = on_unusable
        self._transport: asyncio.Transport
        self._replies = ReplyReader()
        self._unsent: list[_Command] = []
        self._unanswered = deque["asyncio.Future[bytes]"]()

    async def call(self, command: bytes, progress: Progress | None = None) -> bytes:
        """Send a command, together with all commands of this loop iteration, and return its reply.

        `progress` permits the first byte of a delivery and may raise NotSentError. Raises RefusedError,
        UnreadableError, and OSError if the connection breaks.
        """
        self.check()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        if not self._unsent:
            loop.call_soon(self._send)
        self._unsent.append((command, progress, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            if not answer.cancelled():
                answer.exception()  # retrieved: it arrived at the moment of the cancellation
            # A server that missed one reply may never send the next.
            self._retire(ConnectionError("it sent no reply to another delivery in time"))
            self._close_when_done()
            raise

    def check(self) -> None:
        """Raise the error after which the connection takes no more commands, if any."""
        if self._fault is not None:
            raise _again(self._fault)

    async def close(self) -> None:
        """Close at once."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass each reply to the oldest pending command."""
        try:
            for reply in self._replies.feed(data):
                self._take(reply)
        except (RefusedError, UnreadableError) as error:
            self._end(error)
            self._transport.abort()
        if self._fault is not None:
            self._close_when_done()

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error if isinstance(error, OSError) else ConnectionError("the server closed it"))

    def _send(self) -> None:
        unsent, self._unsent = self._unsent, []
        commands = []
        for command, progress, answer in unsent:
            if answer.done():
                continue
            try:
                if progress is not None:
                    progress.begin_sending()
            except Exception as error:  # noqa: BLE001 - the error of one delivery
                answer.set_exception(error)
            else:
                commands.append(command)
                self._unanswered.append(answer)
        if commands:
            self._transport.write(b"".join(commands))
        if self._fault is not None:
            self._close_when_done()

    def _take(self, reply: bytes | RefusedError) -> None:
        if not self._unanswered:
            if isinstance(reply, RefusedError):
                raise reply  # a server with too many clients sends this error before it disconnects
            raise UnreadableError("a reply without a command")
        answer = self._unanswered.popleft()
        if answer.done():
            return
        if isinstance(reply, RefusedError):
            answer.set_exception(reply)
        else:
            answer.set_result(reply)

    def _retire(self, fault: Exception) -> None:
        self._fault = self._fault or fault
        self._on_unusable(self)

    def _close_when_done(self) -> None:
        if not self._unsent and all(answer.done() for answer in self._unanswered):
            self._transport.abort()

    def _end(self, error: Exception) -> None:
        self._retire(error)
        answers = [*self._unanswered, *(answer for _, _, answer in self._unsent)]
        self._unanswered.clear()
        self._unsent.clear()
        for answer in answers:
            if not answer.done():
                answer.set_exception(_again(error))


def _again(error: Exception) -> Exception:
    """Copy an exception, for another task to raise."""
    return type(error)(*error.args)


OnUnusable = Callable[[RedisConnection], None]
"""Takes a connection once it cannot be used any more."""
