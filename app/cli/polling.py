"""Looks: to look again and again, until Ctrl-C."""

import signal
import threading
from collections.abc import Iterator
from types import FrameType


def looks(every: float) -> Iterator[None]:
    """Yield for each look, so many seconds after the one before; Ctrl-C ends it, and a second one breaks the look off.

    Python raises KeyboardInterrupt wherever the program is, and what is raised in a destructor or a callback is lost:
    so nothing is raised at first.
    """
    stopping, before = threading.Event(), signal.getsignal(signal.SIGINT)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, stop)
    try:
        while not stopping.is_set():
            yield
            stopping.wait(every)
    finally:
        signal.signal(signal.SIGINT, before)
