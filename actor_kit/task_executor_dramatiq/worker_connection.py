"""Connection to a worker: its socket, the frames that arrive, and its end."""

import socket
import struct
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from task_executor_dramatiq.frames import FrameReader
from task_executor_dramatiq.tls_worker import TlsSocket

READ_BYTES = 262_144
WRITE_SECONDS = 30.0  # for a worker that hangs; then the connection ends, and the outcome goes by the next one


class WorkerConnection:
    """One connection to a worker, which one thread reads; those that write take turns.

    `is_ending` after `end_sending`: the worker takes back what it sends from then on.
    """

    def __init__(self, connected: socket.socket | TlsSocket) -> None:
        self.is_ending = False
        self._socket = connected
        self.limit_writes(WRITE_SECONDS)
        self._reader = FrameReader()

    def write(self, frame: bytes) -> bool:
        """Write a frame; returns False if the connection is broken."""
        try:
            self._socket.sendall(frame)
        except (TimeoutError, BlockingIOError):
            self.interrupt()  # a part of the frame may be sent, so no other may follow
            return False
        except OSError:
            return False
        return True

    def receive(self) -> Iterable[Mapping[str, Any]] | None:
        """Wait for frames; returns None at the end. Raises OSError, and ValueError for bytes that are no frame."""
        data = self._socket.recv(READ_BYTES)
        return self._reader.feed(data) if data else None

    def limit_writes(self, seconds: float) -> None:
        """Bound each later write; a timeout of Python's would bound reads, too."""
        whole, rest = divmod(seconds, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(whole), int(rest * 1e6)))

    def interrupt_later(self, seconds: float) -> None:
        """Let all reads and writes end after a time, if the worker has not closed the connection by then."""
        timer = threading.Timer(seconds, self.interrupt)
        timer.daemon = True
        timer.start()

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
        """Close the socket, of which no other thread may be reading."""
        self._socket.close()
