"""Stalled connections: ends the wait for a database that neither answers nor hangs up.

A statement timeout is the server's, and keepalives are answered by its kernel: where the server process itself stands
still (frozen, or waiting for a disk), libpq waits for ever. Shutting its socket down turns that into a lost connection.
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

ANSWER_SECONDS = 2.0  # how much longer than a statement may take its answer is waited for
_LOOK_EVERY_SECONDS = 0.25


class StalledConnections(BackgroundThread):
    """Watches connections in use, from a thread that each process starts with its first connection."""

    def __init__(self) -> None:
        super().__init__("te-stalled")
        self._lock = threading.Lock()
        self._watched: dict[object, tuple[float, Any]] = {}

    def start_watching(self, *_connected: object) -> None:
        """Start the thread unless it runs; a listener of the engine's event `connect`."""
        with self._lock:
            if self.ensure_started():
                self._watched.clear()  # a forked process does not own what its parent watched

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
        """Look again and again for connections whose time is over."""
        while not self.stopping.wait(_LOOK_EVERY_SECONDS):
            with self._lock:
                now = time.monotonic()
                for watch in [watch for watch, (at, _) in self._watched.items() if at <= now]:
                    _cut(self._watched.pop(watch)[1])


def _cut(driver: Any) -> None:
    log.warning("the database does not answer; its connection is given up")
    # It may have been closed this very moment.
    with suppress(OSError, psycopg2.Error), socket.socket(fileno=os.dup(driver.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
