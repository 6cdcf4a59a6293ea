"""Workflows: fan-out and fan-in, links of a chain, and what happens when a worker is killed in between."""

import time
from collections.abc import Sequence
from itertools import pairwise

from app.dev.process.child import Child
from benchmarks.arrivals import Arrivals
from benchmarks.contenders.workflow_contenders import OurWorkflows, WorkflowContender
from benchmarks.measures import drain
from benchmarks.report.results import Figure, Section, percentile
from benchmarks.report.run import Run
from benchmarks.system import System

_WARM = 50
_LINKS = 200
_PATIENCE_SECONDS = 60.0
_POLL_SECONDS = 0.02

STARTED = Figure("until the workflow was started, s", "", 2)
ENDED = Figure("until the last delivery arrived, s", "", 2)
RATIO = Figure("from the first to the last arrival, relative to a drain of as many plain jobs", "", 2)
# A node makes its job when it starts; the plain jobs exist before their drain.
RATIO_MADE = Figure("the same, relative to enqueuing these plain jobs in bulk and their drain", "", 2)
LINK = {share: Figure(f"link of a chain, idle, p{share * 100:.0f}", "ms", 1) for share in (0.5, 0.99)}
KILLED_END = Figure(f"a worker killed: last delivery within {_PATIENCE_SECONDS:.0f} s", "")
ONCE = Figure("a worker killed: delivered once", "")
TWICE = Figure("a worker killed: delivered again", "")
NEVER = Figure(f"a worker killed: not delivered within {_PATIENCE_SECONDS:.0f} s", "")


def measure(run: Run, contenders: Sequence[WorkflowContender], system: System, *, count: int, rounds: int) -> Section:
    """Measure the contenders in turn; every second round in the opposite order."""
    arrivals = system.arrivals
    section = run.section(f"Workflow of {count:,} deliveries: one, then {count - 2:,} at once, then one")
    for number in range(rounds):
        run.calibrate()
        plain = drain.drain(system.ours, arrivals.url, arrivals, count)
        drained, made = count / plain[drain.RATE], count / plain[drain.FILL]
        for contender in contenders if number % 2 == 0 else reversed(contenders):
            with contender.at_work() as workers:
                _fan(arrivals, contender, _WARM)
                taken = _add_fan(section, arrivals, contender, count)
                section.add(RATIO, contender.name, taken / drained)
                section.add(RATIO_MADE, contender.name, taken / (made + drained))
                _add_chain(section, arrivals, contender, min(count, _LINKS))
                _add_killed(section, arrivals, contender, count, workers[0])
            run.remark(f"{contender.name}: {contender.remark}")
            print(f"  {contender.name}: workflows taken", flush=True)
        run.calibrate()
    run.remark("killed: one of two workers by SIGKILL after a third of the deliveries, and started again at once")
    return section


def _fan(arrivals: Arrivals, contender: WorkflowContender, count: int) -> tuple[float, float]:
    """Run a workflow; return its start and the time until the caller knew that it was started."""
    arrivals.clear()
    began = contender.fan(arrivals.url, count)
    started = time.time() - began
    arrivals.wait_for(count)
    return began, started


def _add_fan(section: Section, arrivals: Arrivals, contender: WorkflowContender, count: int) -> float:
    """Run a workflow; return the seconds from the first to the last arrival."""
    began, started = _fan(arrivals, contender, count)
    times = arrivals.times().values()
    if isinstance(contender, OurWorkflows):  # a peer's client is a process of its own, whose start would count
        section.add(STARTED, contender.name, started)
    section.add(ENDED, contender.name, max(times) - began)
    return max(times) - min(times)


def _add_chain(section: Section, arrivals: Arrivals, contender: WorkflowContender, links: int) -> None:
    arrivals.clear()
    contender.chain(arrivals.url, links)
    arrivals.wait_for(links)
    times = sorted(arrivals.times().values())
    waits = [(after - before) * 1000 for before, after in pairwise(times)]
    for share, figure in LINK.items():
        section.add(figure, contender.name, percentile(waits, share))


def _add_killed(section: Section, arrivals: Arrivals, contender: WorkflowContender, count: int, worker: Child) -> None:
    arrivals.clear()
    contender.fan(arrivals.url, count)
    arrivals.wait_for(count // 3)
    worker.kill()
    worker.start()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not arrivals.times_of("/deliver/end") and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    counts = arrivals.counts()
    section.add(KILLED_END, contender.name, len(arrivals.times_of("/deliver/end")))
    section.add(ONCE, contender.name, counts["arrived"] - counts["repeats"])
    section.add(TWICE, contender.name, counts["repeats"])
    section.add(NEVER, contender.name, count - counts["arrived"])
