"""How long the work of this thread may go on; set by the API for each request, absent elsewhere."""

import threading
import time

from app.errors import TimedOutError


class _Local(threading.local):
    at: float | None = None


_deadline = _Local()


def begin(seconds: float) -> None:
    """Give this thread's work a deadline, in place of the one it may have had."""
    _deadline.at = time.monotonic() + seconds


def end() -> None:
    """Take the deadline away."""
    _deadline.at = None


def left(otherwise: float) -> float:
    """Return the seconds until the deadline, negative after it; `otherwise` where there is none."""
    return otherwise if _deadline.at is None else _deadline.at - time.monotonic()


def check() -> None:
    """Raise TimedOutError once the deadline is over."""
    if left(1.0) <= 0:
        raise TimedOutError("The request took too long. What it asked for may have been done: look, or try again.")
