"""Family of a process: the process and its descendants."""

import os
import signal
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

import psutil


def family(pid: int) -> list[int]:
    """List a process and its descendants, the process first; an empty list after its end.

    psutil's `children` compares start times by the machine's clock, which may be set in between.
    """
    children = defaultdict[int, list[int]](list)
    for process in psutil.process_iter(["ppid"]):
        children[process.info["ppid"]].append(process.pid)
    found = [pid] if psutil.pid_exists(pid) else []
    for member in found:
        found += children[member]
    return found


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to all processes that still exist."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
