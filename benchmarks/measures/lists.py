"""Response times of the lists and reports of the API, with all filters and pairs of filters."""

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
    """Milliseconds of the first call of a read, and the median of the repeated calls."""

    first: float
    again: float


def measure(run: Run, contenders: list[Ours], filters: int, rounds: int) -> Section:
    """Time every read of each contender, once and then `rounds` times; show the slowest reads of the last contender."""
    timings = {ours.name: _timings(ours, filters, rounds) for ours in contenders}
    counts = ", ".join(f"{name}: {len(timed)}" for name, timed in timings.items())
    section = run.section(f"Reads of the API, the {_SHOWN} slowest (of {counts})")
    slowest = sorted(timings[contenders[-1].name].items(), key=lambda each: -max(each[1].first, each[1].again))
    for label, _ in slowest[:_SHOWN]:
        for name, timed in timings.items():
            if label in timed:
                section.add(Figure(f"GET {label}, ms", "", 1), f"{name}, first", timed[label].first)
                section.add(Figure(f"GET {label}, ms", "", 1), f"{name}, again", timed[label].again)
    for name, timed in timings.items():
        section.add(_FIRST, f"{name}, first", sum(each.first > _SLOW_MS for each in timed.values()))
        section.add(_AGAIN, f"{name}, again", sum(each.again > _SLOW_MS for each in timed.values()))
    return section


def _timings(ours: Ours, filters: int, rounds: int) -> dict[str, _Timing]:
    timed = {}
    for label, path in reads(ours.stack.api, filters):
        first, *more = (_milliseconds(ours, path) for _ in range(1 + rounds))
        timed[label] = _Timing(first, statistics.median(more))
    return timed


def _milliseconds(ours: Ours, path: str) -> float:
    """Return the milliseconds of a request; raises ApiError if the request is refused."""
    started = time.perf_counter()
    ours.stack.api.get(path)
    return (time.perf_counter() - started) * 1000
