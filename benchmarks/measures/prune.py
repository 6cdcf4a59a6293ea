"""Rate of pruning the oldest executions, alone and beside deliveries, and its effect on the deliveries."""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

from benchmarks.arrivals import Arrivals
from benchmarks.contenders.contender import Times, check
from benchmarks.contenders.ours import Ours
from benchmarks.measures import drain
from benchmarks.pruning import Pruning, pruning
from benchmarks.report.results import Figure, Section, percentile
from benchmarks.report.run import Run

_ALONE_SECONDS = 4.0
_NORMAL = 0.5  # load as a share of a drain's rate; delayed deliveries must be promoted too, so it is well below 1
_LEAD_SECONDS = 6.0  # time for the start of workers and of pruning
_BATCH = 1000
_FILL_RATE = 1500  # conservative rate of creating jobs in batches

PRUNED = Figure("executions pruned, 1/s", "")
COST = Figure("CPU of PostgreSQL per pruned execution, ms", "", 3)
KEPT = Figure("rate of the deliveries, relative to no pruning", "", 2)
LATE = {share: Figure(f"late by, p{share * 100:.0f}, ms", "", 1) for share in (0.5, 0.99)}

NOTHING, DRAIN, NORMAL = "nothing else", "drain at full speed", f"load of {_NORMAL:.0%} of the drain"
PLAIN = "the same load without pruning"


@dataclass(frozen=True, slots=True)
class _Round:
    """Shared values of the measurements of a round."""

    run: Run
    section: Section
    ours: Ours
    arrivals: Arrivals
    count: int

    def beside_nothing(self) -> None:
        with pruning(self.ours) as pruned:
            time.sleep(_ALONE_SECONDS)
            self._add(NOTHING, pruned)

    def beside_a_drain(self) -> float:
        """Drain with and without pruning; return the rate without pruning."""
        alone, begun = drain.drain(self.ours, self.arrivals.url, self.arrivals, self.count), list[Pruning]()
        with ExitStack() as stack:

            def begin() -> None:
                begun.append(stack.enter_context(pruning(self.ours)))

            beside = drain.drain(self.ours, self.arrivals.url, self.arrivals, self.count, beside=begin)
            self._add(DRAIN, begun[0])
        self.section.add(KEPT, DRAIN, beside[drain.STEADY] / alone[drain.STEADY])
        return alone[drain.STEADY]

    def beside_a_load(self, rate: float) -> None:
        """Deliver delayed jobs that come due at a rate, without and with pruning."""
        kept = [self._deliver(PLAIN, rate), self._deliver(NORMAL, rate)]
        self.section.add(KEPT, NORMAL, kept[1] / kept[0])

    def _deliver(self, column: str, rate: float) -> float:
        """Return the achieved share of the rate."""
        self.arrivals.clear()
        due = _fill(self.ours, self.arrivals.url, rate, self.count)
        self.ours.settle()
        with ExitStack() as stack:
            workers = stack.enter_context(self.ours.at_work())
            pruned = stack.enter_context(pruning(self.ours)) if column is NORMAL else None
            self.arrivals.wait_for(self.count, check=lambda: check(workers))
            if pruned is not None:
                self._add(column, pruned)
        times = self.arrivals.times()
        late = [(times[key] - instant) * 1000 for key, instant in due.items()]
        for share, figure in LATE.items():
            self.section.add(figure, column, percentile(late, share))
        return self.count / rate / (max(times.values()) - min(due.values()))

    def _add(self, column: str, pruned: Pruning) -> None:
        rate, cost = pruned.rate()
        self.section.add(PRUNED, column, rate)
        if column is NOTHING:
            self.section.add(COST, column, cost)
        if pruned.is_over:
            self.run.remark(f"prune beside {column}: pruning finished too early, so the shown rate is too low")


def measure(run: Run, ours: Ours, arrivals: Arrivals, count: int, rounds: int) -> Section:
    """Prune alone, beside a drain and beside a moderate load; this deletes a part of the history."""
    section = run.section("Prune, beside")
    for _ in range(rounds):
        run.calibrate()
        this = _Round(run, section, ours, arrivals, count)
        this.beside_nothing()
        rate = this.beside_a_drain()
        this.beside_a_load(rate * _NORMAL)
        run.calibrate()
    return section


def _fill(ours: Ours, url: str, rate: float, count: int) -> Times:
    """Create `count` jobs that come due at a rate, and return their due times."""
    first = time.time() + count / _FILL_RATE + _LEAD_SECONDS
    due = {}
    for begun in range(0, count, _BATCH):
        instants = [first + number / rate for number in range(begun, min(begun + _BATCH, count))]
        run_at = [datetime.fromtimestamp(instant, UTC).isoformat() for instant in instants]
        jobs = [ours.job(url, trigger="DELAYED", run_at=each) for each in run_at]
        items = ours.stack.api.post("/jobs/batch", {"jobs": jobs})["items"]
        due |= {item["job"]["execution"]["execution_id"]: at for item, at in zip(items, instants, strict=True)}
    return due
