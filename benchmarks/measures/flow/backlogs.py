"""Backlogs: how fast a very long one drains, and how late fresh work is beside it and beside ticks of an outage."""

import statistics
import time
from collections.abc import Sequence

from benchmarks.arrivals import Arrivals
from benchmarks.contenders.contender import check
from benchmarks.contenders.crowd import Crowd, OurCrowd, Stream
from benchmarks.measures.flow import pace
from benchmarks.measures.flow.isolation import Load, Seen, deliver
from benchmarks.report.results import Figure, Section, percentile
from benchmarks.report.run import Run

_ENDPOINTS = 20
_SMALL_A_SECOND = 5000  # of the short backlog; a drain of it ends when nearly all of it was delivered
_NEARLY_ALL = 0.9
_FRESH_A_SECOND = 50
_WARM = pace.WARM
_LOOK_SECONDS = 0.2
_TICKS_AN_HOUR = 60
# What a scheduler finds that was down for an hour.
_AN_HOUR_LATE = """
UPDATE jobs SET cron_next_run_at = date_trunc('minute', now()) - INTERVAL '1 hour',
       cron_starts_at = date_trunc('minute', now()) - INTERVAL '1 hour'
 WHERE trigger_type = 'CRON' AND status = 'ACTIVE'
"""

DRAIN = Figure("drain", "1/s")
RATIO = Figure("drain, by that of a short backlog", "", 2)
LATE = [Figure(f"fresh deliveries late by, p{share}", "ms", 1) for share in (50, 99)]
FRESH = Figure("fresh deliveries, of what came due", "%", 1)
CAUGHT_UP = Figure("ticks delivered meanwhile", "1/s")
MADE_UP = Figure("ticks delivered by then, of all that were late", "%", 1)


def measure(
    run: Run, crowds: Sequence[Crowd], arrivals: Arrivals, *, seconds: float, due: int, turns: int, rounds: int
) -> Section:
    """Drain short backlogs, then a very long one, then the same beside fresh deliveries of the highest priority."""
    section = run.section(f"Backlog of {due:,}, {_ENDPOINTS} endpoints")
    for _ in range(rounds):
        for crowd in crowds:
            run.calibrate()
            _one(section, crowd, arrivals, seconds=seconds, due=due, turns=turns)
            print(f"  backlog: {crowd.name} taken", flush=True)
    run.calibrate()
    return section


def _one(section: Section, crowd: Crowd, arrivals: Arrivals, *, seconds: float, due: int, turns: int) -> None:
    urls = [arrivals.url_of(f"/quick/{number}") for number in range(_ENDPOINTS)]
    fresh = [arrivals.url_of("/fresh")]
    crowd.register([*urls, *fresh])
    small, short = max(2 * _WARM, round(_SMALL_A_SECOND * seconds)), list[float]()
    for _ in range(turns):
        arrivals.clear()
        _fill(crowd, urls, small)
        short.append(pace.take(crowd, arrivals, seconds, most=round(_NEARLY_ALL * small)).rate)
        _add(section, f"{crowd.name}, of {small:,}", short[-1], short)
        crowd.clear()
    _fill(crowd, urls, due)
    for _ in range(turns):
        arrivals.clear()
        _add(section, f"{crowd.name}, of {due:,}", pace.take(crowd, arrivals, seconds).rate, short)
    beside = f"{crowd.name}, of {due:,}, beside {_FRESH_A_SECOND}/s of a high priority"
    arrivals.clear()
    with crowd.at_work() as workers:
        arrivals.wait_for(_WARM, check=lambda: check(workers))
        began, before = time.monotonic(), arrivals.counts()["arrived"]
        seen = deliver(crowd, arrivals, fresh, Load(_FRESH_A_SECOND, seconds), priority=255)
        rate = (arrivals.counts()["arrived"] - before) / (time.monotonic() - began)
    _add(section, beside, rate, short)
    _late(section, beside, seen)
    crowd.clear()


def _fill(crowd: Crowd, urls: Sequence[str], count: int) -> None:
    crowd.fill(urls, count // len(urls))
    crowd.settle()


def _add(section: Section, who: str, rate: float, short: Sequence[float]) -> None:
    section.add(DRAIN, who, rate)
    section.add(RATIO, who, rate / statistics.median(short))


def _late(section: Section, who: str, seen: Seen) -> None:
    section.add(FRESH, who, seen.share * 100)
    for figure, share in zip(LATE, (0.5, 0.99), strict=True):
        section.add(figure, who, percentile(seen.late_ms, share))


def catch_up(
    run: Run, crowds: Sequence[OurCrowd], arrivals: Arrivals, load: Load, *, jobs: int, rounds: int
) -> Section:
    """Deliver fresh work alone, and beside the ticks of jobs whose scheduler was down for an hour."""
    section = run.section(f"Catching up on an hour of {jobs:,} one-minute jobs, beside {load.rate:,.0f}/s")
    for _ in range(rounds):
        for crowd in crowds:
            run.calibrate()
            _catch_up(section, crowd, arrivals, load, jobs)
            print(f"  catch-up: {crowd.name} taken", flush=True)
    run.calibrate()
    run.remark("catch-up: pgqueuer 1.6 does not make up for ticks, so it has no figures there")
    return section


def _catch_up(section: Section, crowd: OurCrowd, arrivals: Arrivals, load: Load, jobs: int) -> None:
    fresh, ticks = [arrivals.url_of("/fresh")], arrivals.url_of("/ticks")
    crowd.register([*fresh, ticks])
    arrivals.clear()
    job = {"trigger": "CRON", "cron": "* * * * *", "timezone": "UTC"}
    crowd.ours.stack.api.post("/jobs/batch", {"jobs": [crowd.ours.job(ticks, **job) for _ in range(jobs)]})
    crowd.enqueue([Stream(fresh[0], _WARM)])
    with crowd.at_work() as workers:
        arrivals.wait_for(_WARM, check=lambda: check(workers))
        _late(section, f"{crowd.name}, alone", deliver(crowd, arrivals, fresh, load))
        usual = len(arrivals.times_of("/ticks"))
        crowd.execute(_AN_HOUR_LATE)
        # The scheduler was not down: what is behind its mark it finds within half a minute.
        while len(arrivals.times_of("/ticks")) < usual + _WARM:
            check(workers)
            time.sleep(_LOOK_SECONDS)
        before, began = len(arrivals.times_of("/ticks")), time.monotonic()
        _late(section, crowd.name, deliver(crowd, arrivals, fresh, load))
        now = len(arrivals.times_of("/ticks"))
        section.add(CAUGHT_UP, crowd.name, (now - before) / (time.monotonic() - began))
        section.add(MADE_UP, crowd.name, (now - usual) / (_TICKS_AN_HOUR * jobs) * 100)
    crowd.clear()
