"""Connection to a receiver: carries one request and its answer at a time."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import cast

from actors.dispatch.http1.answer import MOST_BYTES, AnswerError, AnswerReader
from actors.dispatch.send_progress import Progress

BYTES_PER_TURN = 131_072  # the costliest answer, with chunks of one byte, takes about 10 ms for as many
BYTES_AT_ONCE = 16_384


class LoopShare:
    """Hands out what may be read in this turn of the loop, and later turns, first come, first served."""

    def __init__(self) -> None:
        self._left = BYTES_PER_TURN
        self._line = deque["HttpConnection"]()
        self._is_counting = False

    def take(self, wanted: int) -> int:
        """Take up to that many bytes of this turn; returns how many may be read now, possibly 0."""
        taken = min(wanted, self._left, BYTES_AT_ONCE)
        self._left -= taken
        self._count()
        return taken

    def line_up(self, connection: "HttpConnection") -> None:
        """Let a connection read on in a later turn, after the connections that wait already."""
        self._line.append(connection)
        self._count()

    def _count(self) -> None:
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_counting = False
        self._left = BYTES_PER_TURN
        # Who lines up again meanwhile has to wait for the next turn.
        for _ in range(len(self._line)):
            if self._left <= 0:
                self._count()
                return
            self._line.popleft().read_on()


class HttpConnection(asyncio.Protocol):
    """An open connection; unusable for good once it is closed or the receiver has sent what nobody asked for."""

    def __init__(self, share: LoopShare, on_lost: Callable[["HttpConnection"], None]) -> None:
        self.is_usable = True
        self._received = 0
        self._share = share
        self._on_lost = on_lost
        self._transport: asyncio.Transport
        self._reader: AnswerReader | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._unread = bytearray()
        self._has_ended = False
        self._broken_by: Exception | None = None

    async def exchange(self, request: bytes, progress: Progress) -> AnswerReader:
        """Send a request and return its whole answer; `progress` permits the first byte.

        Raises AnswerError, and OSError where the connection breaks before the head of an answer is there.
        """
        if not self.is_usable:
            raise AnswerError("the endpoint closed the connection, or answered, before the request was sent")
        progress.begin_sending()
        reader = self._reader = AnswerReader()
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        self._received = 0
        self._transport.write(request)
        try:
            await waiter
        finally:
            # An error refers to all that it passed through: buffers would wait for the collector of cycles.
            self._reader = self._waiter = None
            del waiter
            reader.release()
            # An answer may come before the whole request is sent: the rest of it would be read as the next one.
            if not reader.keeps_alive or self._unread or self._transport.get_write_buffer_size():
                self.abort()
        return reader

    def abort(self) -> None:
        """Close at once: a receiver that does not read could hold up any other way to close."""
        self.is_usable = False
        self._unread.clear()
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read as much as this turn of the loop allows, and the rest in later ones."""
        if self._reader is None or self._reader.is_complete:
            self.abort()
            return
        self._received += len(data)
        if self._received >= MOST_BYTES:
            self._transport.pause_reading()  # the answer ends within what is here, one way or another
        if self._unread:
            self._unread += data
            return
        share = self._share.take(len(data))
        if share < len(data):
            self._unread += data[share:]
            self._share.line_up(self)
            data = data[:share]
        self._read(data)

    def eof_received(self) -> None:
        """Take the end of what the receiver sends; the transport closes by itself."""
        self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        """Take the end of the connection."""
        self._on_lost(self)
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        self.is_usable = False
        if not self._has_ended:
            self._has_ended, self._broken_by = True, error
            if not self._unread:
                self._read_end()

    def read_on(self) -> None:
        """Read more of what has arrived; called by the share."""
        if self._reader is None or self._reader.is_complete or not self._unread:
            return
        share = self._share.take(len(self._unread))
        piece = bytes(self._unread[:share])
        del self._unread[:share]
        self._read(piece)
        if self._unread:
            self._share.line_up(self)
        elif self._has_ended:
            self._read_end()

    def _read(self, data: bytes) -> None:
        if self._reader is None:
            return
        try:
            self._reader.feed(data)
        except AnswerError as error:
            self._fail(error)
        else:
            if self._reader.is_complete and self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    def _read_end(self) -> None:
        reader, waiter = self._reader, self._waiter
        if reader is None or waiter is None or reader.is_complete:
            return
        try:
            reader.end()
        except AnswerError as error:
            is_cut = reader.has_head or not isinstance(self._broken_by, OSError)
            self._fail(error if is_cut else self._broken_by or error)
        else:
            if not waiter.done():
                waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.abort()
