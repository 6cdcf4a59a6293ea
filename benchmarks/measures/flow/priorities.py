"""Priorities: their cost for a claim, and the share of low priorities beside high priorities."""

import statistics
from collections.abc import Sequence

from benchmarks.arrivals import Arrivals
from benchmarks.contenders.flow_contenders import FlowContender
from benchmarks.measures.flow import throughput
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run

_ENDPOINTS = 20
_PRIORITIES = 8
_A_SECOND = 5000  # size of each backlog per second; a drain ends when nearly all of it was delivered
_NEARLY_ALL = 0.9
_ENDLESS_A_SECOND = 15_000  # more than any machine delivers
_LOW, _HIGH = 10, 200

RATE = Figure("drain", "1/s")
COST = Figure("CPU of PostgreSQL for each delivery", "ms", 3)
RATIO = Figure("CPU of PostgreSQL, relative to one priority", "", 2)
LOW_SHARE = Figure("share of the low priority beside an endless backlog of a high priority", "%", 1)

_ONE, _MANY = "128", f"mod(n, {_PRIORITIES})"


def measure(
    run: Run,
    contenders: Sequence[FlowContender],
    arrivals: Arrivals,
    *,
    seconds: float,
    future: int,
    turns: int,
    rounds: int,
) -> Section:
    """Drain a backlog with one priority, with many, and with many waiting retries of the highest priority."""
    section = run.section(f"Priorities, {_ENDPOINTS} endpoints")
    for _ in range(rounds):
        for contender in contenders:
            run.calibrate()
            _one(section, contender, arrivals, seconds=seconds, future=future, turns=turns)
            print(f"  priorities: {contender.name} taken", flush=True)
    run.calibrate()
    return section


def _one(
    section: Section, contender: FlowContender, arrivals: Arrivals, *, seconds: float, future: int, turns: int
) -> None:
    urls = [arrivals.url_of(f"/quick/{number}") for number in range(_ENDPOINTS)]
    contender.register(urls)
    one, many = f"{contender.name}, one priority", f"{contender.name}, {_PRIORITIES} priorities"
    waits, alone = f"{many}, {future:,} retries wait in the highest", []
    for _ in range(turns):
        for column, priority in ((one, _ONE), (many, _MANY)):
            taken = _drain(contender, arrivals, urls, seconds, priority)
            if column == one:
                alone.append(taken.database_ms)
            _add(section, column, taken, alone)
            contender.clear()
    contender.fill(urls, future // len(urls), priority=str(_PRIORITIES - 1), waits=True)
    for _ in range(turns):
        _add(section, waits, _drain(contender, arrivals, urls, seconds, _MANY), alone)
    contender.clear()
    section.add(LOW_SHARE, many, _low_share(contender, arrivals, urls, seconds / 2))
    contender.clear()


def _drain(
    contender: FlowContender, arrivals: Arrivals, urls: Sequence[str], seconds: float, priority: str
) -> throughput.Throughput:
    arrivals.clear()
    due = max(2 * throughput.WARM, round(_A_SECOND * seconds))
    contender.fill(urls, due // len(urls), priority=priority)
    contender.settle()
    return throughput.measure(contender, arrivals, seconds, most=round(_NEARLY_ALL * due))


def _add(section: Section, column: str, taken: throughput.Throughput, alone: Sequence[float]) -> None:
    section.add(RATE, column, taken.rate)
    section.add(COST, column, taken.database_ms)
    section.add(RATIO, column, taken.database_ms / statistics.median(alone))


def _low_share(contender: FlowContender, arrivals: Arrivals, urls: Sequence[str], seconds: float) -> float:
    """Deliver from two endless backlogs of the same endpoints, with a low and a high priority."""
    arrivals.clear()
    due = max(4 * throughput.WARM, round(2 * _ENDLESS_A_SECOND * seconds))
    contender.fill(urls, due // len(urls), priority=f"{_LOW} + {_HIGH - _LOW} * mod(n, 2)")
    contender.settle()
    throughput.measure(contender, arrivals, seconds)
    done = contender.delivered_by_priority()
    return done.get(_LOW, 0) / sum(done.values()) * 100
