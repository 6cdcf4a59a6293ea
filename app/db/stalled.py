"""Ends the wait for a database that neither answers nor hangs up.

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

log = logging.getLogger(__name__)

_LOOK_EVERY_SECONDS = 0.25


class StalledConnections:
    """Watches connections in use from a thread that starts with the first of them, in each process anew."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[object, tuple[float, Any]] = {}
        self._pid = 0

    @contextmanager
    def watch(self, driver: Any, seconds: float) -> Iterator[None]:
        """Cut the connection if the block lasts longer than this."""
        me = object()
        with self._lock:
            self._ensure_thread()
            self._watched[me] = time.monotonic() + seconds, driver
        try:
            yield
        finally:
            with self._lock:
                self._watched.pop(me, None)

    def _ensure_thread(self) -> None:
        # gunicorn forks: neither the thread nor what it watched belongs to the child.
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._watched.clear()
            threading.Thread(target=self._run, name="te-stalled", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(_LOOK_EVERY_SECONDS)
            with self._lock:
                now = time.monotonic()
                for watch in [watch for watch, (at, _) in self._watched.items() if at <= now]:
                    _cut(self._watched.pop(watch)[1])


def _cut(driver: Any) -> None:
    log.warning("the database does not answer; its connection is given up")
    # It may have been closed this very moment.
    with suppress(OSError, psycopg2.Error), socket.socket(fileno=os.dup(driver.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
