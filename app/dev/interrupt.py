"""Interrupt: Ctrl-C and equivalent signals."""

import signal
from types import FrameType


def catch_signals() -> None:
    """Raise KeyboardInterrupt on INT, TERM and HUP, so that closing the terminal leaves no servers behind."""
    # INT explicitly: shells start background jobs with INT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, _interrupt)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
