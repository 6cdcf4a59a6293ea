"""Connection to a receiver: carries one request and its answer at a time."""

import asyncio
from collections.abc import Callable
from typing import cast

from actors.dispatch.http1.answer import MOST_BYTES, AnswerError, AnswerReader
from actors.dispatch.http1.loop_share import LoopShare


class Connection(asyncio.Protocol):
    """An open connection; unusable for good once it is closed or the receiver has sent what nobody asked for."""

    def __init__(self, share: LoopShare, on_lost: Callable[["Connection"], None]) -> None:
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

    async def exchange(self, request: bytes, about_to_send: Callable[[], None]) -> AnswerReader:
        """Send a request and return its whole answer; `about_to_send` is called right before the first byte.

        Raises AnswerError, and OSError where the connection breaks before the head of an answer is there.
        """
        if not self.is_usable:
            raise AnswerError("the endpoint closed the connection, or answered, before the request was sent")
        about_to_send()
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
            self._share.line_up(self._read_on)
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

    def _read_on(self) -> None:
        if self._reader is None or self._reader.is_complete or not self._unread:
            return
        share = self._share.take(len(self._unread))
        piece = bytes(self._unread[:share])
        del self._unread[:share]
        self._read(piece)
        if self._unread:
            self._share.line_up(self._read_on)
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
            if self._reader.is_complete:
                self._succeed()

    def _read_end(self) -> None:
        reader = self._reader
        if reader is None or reader.is_complete:
            return
        try:
            reader.end()
        except AnswerError as error:
            is_cut = reader.has_head or not isinstance(self._broken_by, OSError)
            self._fail(error if is_cut else self._broken_by or error)
        else:
            self._succeed()

    def _succeed(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.abort()
