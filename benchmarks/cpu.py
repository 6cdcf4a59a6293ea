"""CPU time of processes with all that descend from them."""

import time
from collections.abc import Iterable
from contextlib import suppress

import psutil

from app.dev.process.family import family


def seconds(*roots: int) -> float:
    """Return the CPU seconds that these processes and their descendants have used so far, ended ones included."""
    return sum(_of(pid) for root in roots for pid in family(root))


def _of(pid: int) -> float:
    with suppress(psutil.NoSuchProcess):
        times = psutil.Process(pid).cpu_times()
        # What a descendant used is its parent's once it has ended and its parent has waited for it.
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


def speed() -> float:
    """Return how many million steps of a plain loop one core does in a second now."""
    started, total = time.perf_counter(), 0
    for number in range(3_000_000):
        total += number
    return 3 / (time.perf_counter() - started)


def spread(values: Iterable[float]) -> float:
    """Return by what share the values differ: (largest - smallest) / smallest."""
    ordered = sorted(values)
    return (ordered[-1] - ordered[0]) / ordered[0]
