"""Family of a process: itself and all that descends from it."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

import psutil


def family(pid: int) -> list[int]:
    """List a process and its descendants, itself first; nothing when it has ended."""
    with suppress(psutil.NoSuchProcess):
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    return []


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to those of the processes that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
