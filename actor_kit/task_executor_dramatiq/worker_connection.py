"""Connection to a worker: its socket, the frames that arrive, and its end."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from task_executor_dramatiq.frames import FrameReader
from task_executor_dramatiq.timed_send import send_within
from task_executor_dramatiq.tls_worker import TlsSocket

READ_BYTES = 262_144


class WorkerConnection:
    """One connection to a worker, which one thread reads; writing threads take turns.

    `is_ending` after `end_sending`: the worker takes back all messages that it sends from then on.
    `has_hung` after a write or a wait that took too long.
    """

    def __init__(self, connected: socket.socket | TlsSocket, write_seconds: float) -> None:
        """Take the bound of each write."""
        self.is_ending = self.has_hung = False
        self.write_seconds = write_seconds
        self._socket = connected
        self._send: Callable[[bytes, float], None]
        self._send = connected.sendall if isinstance(connected, TlsSocket) else partial(send_within, connected)
        self._reader = FrameReader()
        self._timer = threading.Timer(0.0, self._give_up)  # never started

    def write(self, frame: bytes) -> bool:
        """Write a frame; returns False if the connection is broken."""
        try:
            self._send(frame, self.write_seconds)
        except TimeoutError:
            self._give_up()  # a part of the frame may be sent, so no other may follow
            return False
        except OSError:
            return False
        return True

    def reads(self) -> Iterator[Iterator[Mapping[str, Any]]]:
        """Yield the frames of each read until the end; raises OSError, and ValueError for bytes that are no frame."""
        while data := self._socket.recv(READ_BYTES):
            yield self._reader.feed(data)

    def interrupt_later(self, seconds: float) -> None:
        """Let all reads and writes end after a time, unless `keep` or `close` comes first."""
        self._timer.cancel()
        self._timer = threading.Timer(seconds, self._give_up)
        self._timer.daemon = True
        self._timer.start()

    def keep(self) -> None:
        """Note that the worker has answered: only the end of the connection has a time limit from now on."""
        if not self.is_ending:
            self._timer.cancel()

    def interrupt(self) -> None:
        """Let all reads and writes end, from any thread."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def end_sending(self) -> None:
        """Let the worker close the connection: to refuse its frames could lose outcomes under way by TCP."""
        self.is_ending = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the socket, and end the read of another thread."""
        self._timer.cancel()
        self.interrupt()  # a close alone ends no read
        self._socket.close()

    def _give_up(self) -> None:
        self.has_hung = True
        self.interrupt()
