"""Machine of the benchmark: description, CPU use of processes, and steadiness."""

import os
import platform
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from app.dev.process.child import family

MOST_SPREAD = 0.25
"""Maximum relative spread of the yardsticks of a valid run."""

STEPS = 1_000_000
"""Steps of the loop that measures the speed."""
_LOOPS = 5


def cpu_seconds(*roots: int) -> float:
    """Return the CPU seconds used by processes and their descendants, including ended descendants."""
    return sum(_cpu_of(pid) for root in roots for pid in family(root))


def _cpu_of(pid: int) -> float:
    with suppress(psutil.NoSuchProcess):
        times = psutil.Process(pid).cpu_times()
        # The times of an ended descendant belong to its parent once the parent has waited for it.
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def speed(steps: int = STEPS) -> float:
    """Return the current speed of one core in million steps of a plain loop per second: the median of five loops."""
    return statistics.median(_loop(steps) for _ in range(_LOOPS))


def _loop(steps: int) -> float:
    started, total = time.perf_counter(), 0
    for number in range(steps):
        total += number
    return steps / 1e6 / (time.perf_counter() - started)


def spread(values: Sequence[float]) -> float:
    """Return the relative spread of values: maximum minus minimum, divided by the median."""
    return (max(values) - min(values)) / statistics.median(values) if values else 0.0


def describe() -> str:
    """Return one line that describes the machine."""
    memory = psutil.virtual_memory().total / 2**30
    return f"{cores()} cores of {_model()}, {memory:.0f} GiB, Python {platform.python_version()}, {platform.system()}"


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()
