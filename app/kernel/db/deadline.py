"""Deadline of the work on this thread: set by the API for each request, absent elsewhere."""

import math
import threading
import time

from app.kernel.errors import TimedOutError


class _Current(threading.local):
    at = math.inf


current = _Current()
"""Of the calling thread: `current.at` is its deadline by `time.monotonic()`, infinite where there is none."""


def begin(seconds: float) -> None:
    """Set this thread's deadline, replacing any earlier one."""
    current.at = time.monotonic() + seconds


def end() -> None:
    """Remove the deadline."""
    current.at = math.inf


def check() -> None:
    """Raise TimedOutError once the deadline has passed."""
    if time.monotonic() >= current.at:
        raise TimedOutError("The request took too long. What it asked for may have been done: look, or try again.")
