"""A server process of PostgreSQL that is frozen for a while."""

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
    """Freeze the server process of the pooled connection; gives the instant of it."""
    pid = database.fetch(PID)[0].pid
    try:
        os.kill(pid, signal.SIGSTOP)
    except (ProcessLookupError, PermissionError):
        pytest.skip("the server is not ours to freeze")
    try:
        yield time.monotonic()
    finally:
        os.kill(pid, signal.SIGCONT)
