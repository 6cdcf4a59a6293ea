"""Connection to a worker: its socket, the frames that arrive, and its end."""

import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from task_executor_dramatiq.frames import FrameReader
from task_executor_dramatiq.tls_worker import TlsSocket

READ_BYTES = 262_144


class WorkerConnection:
    """One connection to a worker, which one thread reads; those that write take turns.

    `is_ending` after `end_sending`: the worker takes back what it sends from then on.
    """

    def __init__(self, connected: socket.socket | TlsSocket) -> None:
        self.is_ending = False
        self._socket = connected
        self._reader = FrameReader()

    def write(self, frame: bytes) -> bool:
        """Write a frame; returns False if the connection is broken."""
        try:
            self._socket.sendall(frame)
        except TimeoutError:
            self.interrupt()  # a part of the frame may be sent, so no other may follow
            return False
        except OSError:
            return False
        return True

    def receive(self) -> Iterable[Mapping[str, Any]] | None:
        """Wait for frames; returns None at the end. Raises OSError, and ValueError for bytes that are no frame."""
        data = self._socket.recv(READ_BYTES)
        return self._reader.feed(data) if data else None

    def limit_time(self, seconds: float) -> None:
        """Bound each later read and write."""
        self._socket.settimeout(seconds)

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
