"""Connection to a Redis server, which carries the commands of many deliveries at a time."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

from actors.dispatch.resp.replies import RefusedError, ReplyReader, UnreadableError
from actors.dispatch.send_progress import Progress

_Command = tuple[bytes, Progress | None, "asyncio.Future[bytes]"]


class RedisConnection(asyncio.Protocol):
    """An open connection. It takes no more commands once it is lost, or one was not answered in time.

    Those that wait for their answers are not concerned by the failure of another one, unless the connection breaks.
    """

    def __init__(self, on_unusable: Callable[["RedisConnection"], None]) -> None:
        self._fault: Exception | None = None  # why it takes no more commands
        self._on_unusable = on_unusable
        self._transport: asyncio.Transport
        self._replies = ReplyReader()
        self._unsent: list[_Command] = []
        self._unanswered = deque["asyncio.Future[bytes]"]()

    async def call(self, command: bytes, progress: Progress | None = None) -> bytes:
        """Send a command with all others of this turn of the loop, and return its reply.

        `progress` permits the first byte of a delivery; a NotSentError of it ends the call. Raises RefusedError,
        UnreadableError, and OSError where the connection breaks as well.
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
                answer.exception()  # it came in the same moment
            # Whoever did not answer one command in time may never answer the next.
            self._retire(ConnectionError("another delivery got no answer from it in time"))
            self._close_when_done()
            raise

    def check(self) -> None:
        """Raise why it takes no more commands, if so."""
        if self._fault is not None:
            raise _again(self._fault)

    async def close(self) -> None:
        """Close at once."""
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Give each reply to the command that has waited for longest."""
        try:
            for reply in self._replies.feed(data):
                self._take(reply)
        except (RefusedError, UnreadableError) as error:
            self._end(error)
            self._transport.abort()
        if self._fault is not None:
            self._close_when_done()

    def connection_lost(self, error: Exception | None) -> None:
        """Take the end of the connection."""
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
            except Exception as error:  # noqa: BLE001 - it belongs to its delivery
                answer.set_exception(error)
            else:
                commands.append(command)
                self._unanswered.append(answer)
        if commands:
            self._transport.write(b"".join(commands))
        if self._fault is not None:
            self._close_when_done()

    def _take(self, reply: bytes | RefusedError) -> None:
        if self._unanswered:
            _settle(self._unanswered.popleft(), reply)
        elif isinstance(reply, RefusedError):
            raise reply  # a server without room for one more client says so before it hangs up
        else:
            raise UnreadableError("a reply that nobody asked for")

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
    """Make an exception once more, for another task to raise."""
    return type(error)(*error.args)


def _settle(answer: "asyncio.Future[bytes]", reply: bytes | RefusedError) -> None:
    if answer.done():
        return
    if isinstance(reply, RefusedError):
        answer.set_exception(reply)
    else:
        answer.set_result(reply)
