"""What priorities cost a claim, and what low ones get beside high ones."""

import statistics
from collections.abc import Sequence

from benchmarks.arrivals import Arrivals
from benchmarks.contenders.crowd import Crowd
from benchmarks.measures.flow import pace
from benchmarks.report.results import Figure, Section
from benchmarks.report.run import Run

_ENDPOINTS = 20
_PRIORITIES = 8
_A_SECOND = 5000  # of each drain, which ends when nearly all of it was delivered
_NEARLY_ALL = 0.9
_ENDLESS_A_SECOND = 15_000  # more than any machine delivers
_LOW, _HIGH = 10, 200

RATE = Figure("drain", "1/s")
COST = Figure("CPU of PostgreSQL for each delivery", "ms", 3)
RATIO = Figure("CPU of PostgreSQL, by that with one priority", "", 2)
LOW_SHARE = Figure("share of the low priority beside an endless high one", "%", 1)

_ONE, _MANY = "128", f"mod(n, {_PRIORITIES})"


def measure(
    run: Run, crowds: Sequence[Crowd], arrivals: Arrivals, *, seconds: float, future: int, turns: int, rounds: int
) -> Section:
    """Drain the same backlog with one priority, with many, and with many retries that wait in the highest."""
    section = run.section(f"Priorities, {_ENDPOINTS} endpoints")
    for _ in range(rounds):
        for crowd in crowds:
            run.calibrate()
            _one(section, crowd, arrivals, seconds=seconds, future=future, turns=turns)
            print(f"  priorities: {crowd.name} taken", flush=True)
    run.calibrate()
    return section


def _one(section: Section, crowd: Crowd, arrivals: Arrivals, *, seconds: float, future: int, turns: int) -> None:
    urls = [arrivals.url_of(f"/quick/{number}") for number in range(_ENDPOINTS)]
    crowd.register(urls)
    one, many = f"{crowd.name}, one priority", f"{crowd.name}, {_PRIORITIES} priorities"
    waits, alone = f"{many}, {future:,} retries wait in the highest", []
    for _ in range(turns):
        for who, priority in ((one, _ONE), (many, _MANY)):
            taken = _drain(crowd, arrivals, urls, seconds, priority)
            if who == one:
                alone.append(taken.database_ms)
            _add(section, who, taken, alone)
            crowd.clear()
    crowd.fill(urls, future // len(urls), priority=str(_PRIORITIES - 1), waits=True)
    for _ in range(turns):
        _add(section, waits, _drain(crowd, arrivals, urls, seconds, _MANY), alone)
    crowd.clear()
    section.add(LOW_SHARE, many, _low_share(crowd, arrivals, urls, seconds / 2))
    crowd.clear()


def _drain(crowd: Crowd, arrivals: Arrivals, urls: Sequence[str], seconds: float, priority: str) -> pace.Pace:
    arrivals.clear()
    due = max(2 * pace.WARM, round(_A_SECOND * seconds))
    crowd.fill(urls, due // len(urls), priority=priority)
    crowd.settle()
    return pace.take(crowd, arrivals, seconds, most=round(_NEARLY_ALL * due))


def _add(section: Section, who: str, taken: pace.Pace, alone: Sequence[float]) -> None:
    section.add(RATE, who, taken.rate)
    section.add(COST, who, taken.database_ms)
    section.add(RATIO, who, taken.database_ms / statistics.median(alone))


def _low_share(crowd: Crowd, arrivals: Arrivals, urls: Sequence[str], seconds: float) -> float:
    """Deliver from two backlogs of the same endpoints that do not end."""
    arrivals.clear()
    due = max(4 * pace.WARM, round(2 * _ENDLESS_A_SECOND * seconds))
    crowd.fill(urls, due // len(urls), priority=f"{_LOW} + {_HIGH - _LOW} * mod(n, 2)")
    crowd.settle()
    pace.take(crowd, arrivals, seconds)
    done = crowd.delivered_by_priority()
    return done.get(_LOW, 0) / sum(done.values()) * 100
