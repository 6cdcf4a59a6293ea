"""Polls at an interval until Ctrl-C."""

import signal
import threading
from collections.abc import Iterator
from types import FrameType


def polls(every: float) -> Iterator[None]:
    """Yield every `every` seconds until Ctrl-C; a second Ctrl-C raises KeyboardInterrupt during a poll.

    The first Ctrl-C only sets a flag: a KeyboardInterrupt inside a destructor or a callback would be lost.
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
