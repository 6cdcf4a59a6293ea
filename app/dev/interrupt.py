"""Interrupt: Ctrl-C, and the signals that mean the same."""

import signal
from types import FrameType


def catch_signals() -> None:
    """Raise KeyboardInterrupt from now on at INT, TERM and HUP: closing the terminal must not leave servers behind."""
    # INT too, explicitly: a shell starts background jobs with it ignored, and they are stopped by it all the same.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
