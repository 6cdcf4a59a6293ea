"""Family of a process: itself and all that descends from it."""

import os
import signal
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress

import psutil


def family(pid: int) -> list[int]:
    """List a process and its descendants, itself first; nothing when it has ended.

    Not by psutil's `children`, which leaves out who seems older than its parent: by the machine's clock, which may be
    set between two looks.
    """
    children = defaultdict[int, list[int]](list)
    for process in psutil.process_iter(["ppid"]):
        children[process.info["ppid"]].append(process.pid)
    found = [pid] if psutil.pid_exists(pid) else []
    for member in found:
        found += children[member]
    return found


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to those of the processes that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
