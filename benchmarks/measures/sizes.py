"""Cores and memory that each process needs for 10, 100 and 1,000 jobs a second: single requests, HTTP deliveries."""

import json
import time

from benchmarks import backlog, machine
from benchmarks.contenders.ours import Ours
from benchmarks.flood import Flood
from benchmarks.load import PLACE
from benchmarks.measures.flight import memory
from benchmarks.measures.flow.overload import flood_with
from benchmarks.report.results import Figure, Section, percentile
from benchmarks.report.run import Run
from benchmarks.system import System

RATES = (10, 100, 1000)

ACCEPTED = Figure("accepted", "1/s", 1)
ACCEPTED_P99 = Figure("accepted after, p99", "ms", 1)
DELIVERED = Figure("delivered until 2 s after the load", "%", 1)

_LAST_SECONDS = 2


def cores(role: str) -> Figure:
    """Return the figure of the CPU time of a role, divided by the time of the load."""
    return Figure(f"{role}: cores", "", 3)


def memory_of(role: str) -> Figure:
    """Return the figure of the memory of a role, with shared pages counted once."""
    return Figure(f"{role}: PSS", "MiB")


def measure(run: Run, system: System, seconds: float) -> Section:
    """Create jobs at each rate while two worker processes deliver them.

    The load generator, which also asks for the health 40 times a second, is not counted.
    """
    section = run.section(f"Sizes: POST /jobs at a fixed rate for {seconds:g} s, each job delivered over HTTP")
    for rate in RATES:
        run.calibrate()
        system.arrivals.clear()
        with system.ours.at_work() as workers:
            roles = {
                "web": system.ours.stack.process("web").pid,
                "worker": workers[0].pid,
                "scheduler": system.ours.stack.process("scheduler-1").pid,
                "PostgreSQL": system.ours.database_pid or 0,
            }
            _at_rate(section, system, roles, float(rate), seconds)
        backlog.clear(system.ours.stack.database_url)
    run.calibrate()
    return section


def _at_rate(section: Section, system: System, roles: dict[str, int], rate: float, seconds: float) -> None:
    column = f"ours, {rate:,.0f} jobs/s"
    before = {role: machine.cpu_seconds(pid) for role, pid in roles.items()}
    answers = flood_with(system, _flood(system.ours, system.arrivals.url, rate, seconds))["requests"]
    time.sleep(_LAST_SECONDS)
    accepted = answers.get("201", [])
    section.add(ACCEPTED, column, len(accepted) / seconds)
    section.add(ACCEPTED_P99, column, percentile(accepted, 0.99) * 1000 if accepted else float("inf"))
    section.add(DELIVERED, column, 100 * system.arrivals.counts()["arrived"] / max(1, len(accepted)))
    for role, pid in roles.items():
        section.add(cores(role), column, (machine.cpu_seconds(pid) - before[role]) / seconds)
        section.add(memory_of(role), column, memory(pid)[1])


def _flood(ours: Ours, url: str, rate: float, seconds: float) -> Flood:
    job = json.dumps(ours.job(url, idempotency_key=PLACE))
    return Flood(f"127.0.0.1:{ours.stack.port}", "/jobs", ours.stack.api.key, job, rate, seconds)
