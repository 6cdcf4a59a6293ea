"""Freeze a server process of PostgreSQL for the length of a block."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import text

from app.kernel.db import Database

PID = text("SELECT pg_backend_pid() AS pid")


@contextmanager
def frozen(database: Database) -> Iterator[float]:
    """Freeze the server process of the pooled connection; yield the monotonic time of the freeze."""
    pid = database.fetch(PID)[0].pid
    try:
        os.kill(pid, signal.SIGSTOP)
    except (ProcessLookupError, PermissionError):
        pytest.skip("cannot send a signal to the server process: PostgreSQL runs as another user or on another host")
    try:
        yield time.monotonic()
    finally:
        os.kill(pid, signal.SIGCONT)
