"""Deliveries to slow receivers: the number in flight at once, the time until then, and the memory."""

import time
from contextlib import suppress
from pathlib import Path

import psutil

from app.dev.process.child import Child, family
from benchmarks.contenders.contender import check
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run
from benchmarks.system import System

_PROCESSES = 2
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.02

MOST = Figure("most in flight at once", "")
SOON = Figure("from the first arrival to this number in flight", "s", 2)
RSS = Figure("RSS of the worker's processes then", "MiB")
PSS = Figure("PSS of the worker's processes then", "MiB")
SENT_TWICE = Figure("sent twice", "")


_COLUMN = "ours, wide"


def measure(run: Run, system: System, in_flight: int, held_seconds: float, rounds: int) -> Section:
    """Deliver twice the possible number in flight to a receiver that answers after some seconds."""
    section = run.section(f"{in_flight:,} in flight, two worker processes")
    most = in_flight // _PROCESSES
    run.remark(f"{_COLUMN}: workers with TE_WORKER_MAX_CONCURRENT={most}, TE_CONNECTIONS_PER_HOST={most}")
    for _ in range(rounds):
        run.calibrate()
        for figure, value in _once(system, in_flight, held_seconds).items():
            section.add(figure, _COLUMN, value)
    run.calibrate()
    return section


def _once(system: System, in_flight: int, held_seconds: float) -> dict[Figure, float]:
    ours, arrivals, url = system.ours, system.arrivals, system.arrivals.held_url(held_seconds)
    ours.fill(url, 2 * in_flight)
    ours.settle()
    arrivals.clear()
    most = str(in_flight // _PROCESSES)
    with ours.at_work_with(TE_WORKER_MAX_CONCURRENT=most, TE_CONNECTIONS_PER_HOST=most) as workers:
        arrivals.wait_for(1, check=lambda: check(workers))
        took = _wait_until_held(system, workers, in_flight)
        rss, pss = memory(*(worker.pid for worker in workers))
        arrivals.wait_for(2 * in_flight, check=lambda: check(workers))
        counts = arrivals.counts()
    return {MOST: counts["most_held"], SOON: took, RSS: rss, PSS: pss, SENT_TWICE: counts["repeats"]}


def _wait_until_held(system: System, workers: list[Child], in_flight: int) -> float:
    """Return the seconds until `in_flight` deliveries were held, or until no more can come."""
    began = time.monotonic()
    while (counts := system.arrivals.counts())["held"] < in_flight:
        check(workers)
        if counts["arrived"] >= 2 * in_flight or time.monotonic() - began > _PATIENCE_SECONDS:
            break
        time.sleep(_POLL_SECONDS)
    return time.monotonic() - began


def memory(*roots: int) -> tuple[float, float]:
    """Return RSS and PSS of processes with all their descendants, in MiB."""
    pids = [pid for root in roots for pid in family(root)]
    return sum(_rss(pid) for pid in pids), sum(_pss(pid) for pid in pids)


def _rss(pid: int) -> float:
    with suppress(psutil.NoSuchProcess):
        return float(psutil.Process(pid).memory_info().rss) / 2**20
    return 0.0


def _pss(pid: int) -> float:
    # psutil would add up all mappings, which takes far longer than the kernel's sum.
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return float(line.split()[1]) / 1024
    return 0.0
