"""Connection to a receiver for one request and its answer at a time."""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import cast

from actors.dispatch.http1.answer import MAX_BYTES, AnswerError, AnswerReader
from actors.dispatch.send_progress import Progress

BYTES_PER_TURN = 131_072  # about 10 ms for the costliest answer, which has chunks of one byte
BYTES_AT_ONCE = 16_384


class LoopShare:
    """Bytes that may be read in each iteration of the loop, first come, first served."""

    def __init__(self) -> None:
        self._left = BYTES_PER_TURN
        self._line = deque["HttpConnection"]()
        self._is_counting = False

    def take(self, wanted: int) -> int:
        """Take up to that many bytes of this iteration; return the number that may be read now, possibly 0."""
        taken = min(wanted, self._left, BYTES_AT_ONCE)
        self._left -= taken
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._begin_turn)
        return taken

    def line_up(self, connection: "HttpConnection") -> None:
        """Continue a connection in a later iteration, after the connections that already wait."""
        self._line.append(connection)
        self.take(0)

    def _begin_turn(self) -> None:
        self._is_counting = False
        self._left = BYTES_PER_TURN
        # A connection that lines up again waits for the next iteration.
        for _ in range(len(self._line)):
            if self._left <= 0:
                self.take(0)
                return
            self._line.popleft().read_on()


class HttpConnection(asyncio.Protocol):
    """An open connection; permanently unusable once it is closed or the receiver has sent unrequested data."""

    def __init__(self, share: LoopShare, on_lost: Callable[["HttpConnection"], None]) -> None:
        self.is_usable = True
        self.retires_at = math.inf  # monotonic; from then on it takes no further request
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

        Raises AnswerError, and OSError if the connection breaks before the head of an answer has arrived.
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
            # An error refers to these frames: their buffers would wait for the garbage collector.
            self._reader = self._waiter = None
            del waiter
            reader.release()
            # An answer may arrive before the request is fully sent; its rest would be read as the next request.
            if not reader.keeps_alive or self._unread or self._transport.get_write_buffer_size():
                self.abort()
        return reader

    def abort(self) -> None:
        """Close at once: a receiver that does not read could delay any other kind of close."""
        self.is_usable = False
        self._unread.clear()
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read as much as this iteration of the loop allows, and the rest in later iterations."""
        if self._reader is None or self._reader.is_complete:
            self.abort()
            return
        self._received += len(data)
        if self._received >= MAX_BYTES:
            self._transport.pause_reading()  # the answer ends within the received bytes, or fails
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
        """End the answer; the transport closes by itself."""
        self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._on_lost(self)
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        self.is_usable = False
        if not self._has_ended:
            self._has_ended, self._broken_by = True, error
            if not self._unread:
                self._read_end()

    def read_on(self) -> None:
        """Read more of the received bytes; called by the share."""
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
