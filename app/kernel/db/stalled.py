"""Stalled connections: cuts connections to a server that neither answers nor closes them.

The server applies the statement timeout, and its kernel answers keepalives. If the server process itself is frozen or
waits for a disk, libpq waits forever. A shutdown of the socket turns this into a lost connection.
"""

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg2

from app.kernel.threads import BackgroundThread

log = logging.getLogger(__name__)

ANSWER_SECONDS = 2.0  # added to the time of a statement while waiting for its answer
_CHECK_SECONDS = 0.25


class StalledConnections(BackgroundThread):
    """Watches the connections in use, from a thread that each process starts with its first connection."""

    def __init__(self) -> None:
        super().__init__("te-stalled")
        self._lock = threading.Lock()
        self._watched: dict[object, tuple[float, Any]] = {}

    def start_watching(self, *_connected: object) -> None:
        """Start the thread unless it runs; listener of the engine's event `connect`."""
        with self._lock:
            if self.ensure_started():
                self._watched.clear()  # a forked process does not own its parent's connections

    @contextmanager
    def watch(self, driver: Any, seconds: float) -> Iterator[None]:
        """Cut the connection if the block lasts longer than this."""
        me = object()
        with self._lock:
            self._watched[me] = time.monotonic() + seconds, driver
        try:
            yield
        finally:
            with self._lock:
                self._watched.pop(me, None)

    def run(self) -> None:
        while not self.stopping.wait(_CHECK_SECONDS):
            with self._lock:
                now = time.monotonic()
                for watch in [watch for watch, (at, _) in self._watched.items() if at <= now]:
                    _cut(self._watched.pop(watch)[1])


def _cut(driver: Any) -> None:
    log.warning("cut a connection: the database does not answer")
    # Its user may close it concurrently.
    with suppress(OSError, psycopg2.Error), socket.socket(fileno=os.dup(driver.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
