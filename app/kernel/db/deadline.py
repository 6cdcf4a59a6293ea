"""Deadline of the work on this thread: set by the API for each request, otherwise infinite."""

import math
import threading
import time

from app.kernel.errors import TimedOutError


class _Current(threading.local):
    at = math.inf


current = _Current()
"""`current.at` is the deadline of the calling thread by `time.monotonic()`."""


def begin(seconds: float) -> None:
    """Set this thread's deadline, replacing any earlier deadline."""
    current.at = time.monotonic() + seconds


def end() -> None:
    current.at = math.inf


def check() -> None:
    """Raise TimedOutError once the deadline has passed."""
    if time.monotonic() >= current.at:
        raise TimedOutError("The request took too long. Its work may have been done: check, or try again.")
