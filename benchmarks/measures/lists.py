"""How long the lists and reports of the API take, with every filter and every pair of filters."""

import statistics
import time
from dataclasses import dataclass

from benchmarks.contenders.ours import Ours
from benchmarks.reads import reads
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run

_SHOWN = 25
_SLOW_MS = 50

_FIRST, _AGAIN = Figure(f"first calls above {_SLOW_MS} ms", ""), Figure(f"repeated calls above {_SLOW_MS} ms", "")


@dataclass(frozen=True, slots=True)
class _Timing:
    """How many milliseconds a read took at its first call, and the median of some more."""

    first: float
    again: float


def measure(run: Run, contenders: list[Ours], filters: int, rounds: int) -> Section:
    """Time every read of each once and so often again, with at most so many filters; show the slowest of the last's."""
    timings = {ours.name: _timings(ours, filters, rounds) for ours in contenders}
    counts = ", ".join(f"{name}: {len(of_one)}" for name, of_one in timings.items())
    section = run.section(f"Reads of the API, the {_SHOWN} slowest (of {counts})")
    slowest = sorted(timings[contenders[-1].name].items(), key=lambda each: -max(each[1].first, each[1].again))
    for label, _ in slowest[:_SHOWN]:
        for name, of_one in timings.items():
            if label in of_one:
                section.add(Figure(f"GET {label}, ms", "", 1), f"{name}, first", of_one[label].first)
                section.add(Figure(f"GET {label}, ms", "", 1), f"{name}, again", of_one[label].again)
    for name, of_one in timings.items():
        section.add(_FIRST, f"{name}, first", sum(each.first > _SLOW_MS for each in of_one.values()))
        section.add(_AGAIN, f"{name}, again", sum(each.again > _SLOW_MS for each in of_one.values()))
    return section


def _timings(ours: Ours, filters: int, rounds: int) -> dict[str, _Timing]:
    timed = {}
    for label, path in reads(ours.stack.api, filters):
        first, *more = (_milliseconds(ours, path) for _ in range(1 + rounds))
        timed[label] = _Timing(first, statistics.median(more))
    return timed


def _milliseconds(ours: Ours, path: str) -> float:
    """Time a request; raises ApiError for one that is refused."""
    started = time.perf_counter()
    ours.stack.api.get(path)
    return (time.perf_counter() - started) * 1000
