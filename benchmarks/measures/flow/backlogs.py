"""Backlogs: the rate of draining a very long backlog, and the lateness of fresh work beside it and during catch-up."""

import statistics
import time
from collections.abc import Sequence

from benchmarks.arrivals import Arrivals
from benchmarks.contenders.contender import check
from benchmarks.contenders.flow_contenders import FlowContender, OurFlowContender, Stream
from benchmarks.measures.flow import throughput
from benchmarks.measures.flow.isolation import Load, LoadResult, deliver
from benchmarks.report.results import Figure, Section, percentile
from benchmarks.report.run import Run

_ENDPOINTS = 20
_SMALL_A_SECOND = 5000  # size of the short backlog per second; its drain ends when nearly all of it was delivered
_NEARLY_ALL = 0.9
_FRESH_A_SECOND = 50
_WARM = throughput.WARM
_POLL_SECONDS = 0.2
_TICKS_AN_HOUR = 60
# State of cron jobs after a scheduler was down for an hour.
_AN_HOUR_LATE = """
UPDATE jobs SET cron_next_run_at = date_trunc('minute', now()) - INTERVAL '1 hour',
       cron_starts_at = date_trunc('minute', now()) - INTERVAL '1 hour'
 WHERE trigger_type = 'CRON' AND status = 'ACTIVE'
"""

DRAIN = Figure("drain", "1/s")
RATIO = Figure("drain, relative to a short backlog", "", 2)
LATE = [Figure(f"fresh deliveries late by, p{share}", "ms", 1) for share in (50, 99)]
FRESH = Figure("fresh deliveries that arrived", "%", 1)
CAUGHT_UP = Figure("late ticks delivered", "1/s")
CAUGHT_UP_SHARE = Figure("late ticks delivered by the end, of all late ticks", "%", 1)


def measure(
    run: Run,
    contenders: Sequence[FlowContender],
    arrivals: Arrivals,
    *,
    seconds: float,
    due: int,
    turns: int,
    rounds: int,
) -> Section:
    """Drain short backlogs, then a very long backlog, then the same beside fresh work of the highest priority."""
    section = run.section(f"Backlog of {due:,}, {_ENDPOINTS} endpoints")
    for _ in range(rounds):
        for contender in contenders:
            run.calibrate()
            _one(section, contender, arrivals, seconds=seconds, due=due, turns=turns)
            print(f"  backlog: {contender.name} taken", flush=True)
    run.calibrate()
    return section


def _one(
    section: Section, contender: FlowContender, arrivals: Arrivals, *, seconds: float, due: int, turns: int
) -> None:
    urls = [arrivals.url_of(f"/quick/{number}") for number in range(_ENDPOINTS)]
    fresh = [arrivals.url_of("/fresh")]
    contender.register([*urls, *fresh])
    small, short = max(2 * _WARM, round(_SMALL_A_SECOND * seconds)), list[float]()
    for _ in range(turns):
        arrivals.clear()
        _fill(contender, urls, small)
        short.append(throughput.measure(contender, arrivals, seconds, most=round(_NEARLY_ALL * small)).rate)
        _add(section, f"{contender.name}, of {small:,}", short[-1], short)
        contender.clear()
    _fill(contender, urls, due)
    for _ in range(turns):
        arrivals.clear()
        _add(section, f"{contender.name}, of {due:,}", throughput.measure(contender, arrivals, seconds).rate, short)
    beside = f"{contender.name}, of {due:,}, beside {_FRESH_A_SECOND}/s of a high priority"
    arrivals.clear()
    with contender.at_work() as workers:
        arrivals.wait_for(_WARM, check=lambda: check(workers))
        began, before = time.monotonic(), arrivals.counts()["arrived"]
        result = deliver(contender, arrivals, fresh, Load(_FRESH_A_SECOND, seconds), priority=255)
        rate = (arrivals.counts()["arrived"] - before) / (time.monotonic() - began)
    _add(section, beside, rate, short)
    _late(section, beside, result)
    contender.clear()


def _fill(contender: FlowContender, urls: Sequence[str], count: int) -> None:
    contender.fill(urls, count // len(urls))
    contender.settle()


def _add(section: Section, column: str, rate: float, short: Sequence[float]) -> None:
    section.add(DRAIN, column, rate)
    section.add(RATIO, column, rate / statistics.median(short))


def _late(section: Section, column: str, result: LoadResult) -> None:
    section.add(FRESH, column, result.share * 100)
    for figure, share in zip(LATE, (0.5, 0.99), strict=True):
        section.add(figure, column, percentile(result.late_ms, share))


def catch_up(
    run: Run, contenders: Sequence[OurFlowContender], arrivals: Arrivals, load: Load, *, jobs: int, rounds: int
) -> Section:
    """Deliver fresh work alone, and beside late ticks of jobs whose scheduler was down for an hour."""
    section = run.section(f"Catching up on an hour of {jobs:,} one-minute jobs, beside {load.rate:,.0f}/s")
    for _ in range(rounds):
        for contender in contenders:
            run.calibrate()
            _catch_up(section, contender, arrivals, load, jobs)
            print(f"  catch-up: {contender.name} taken", flush=True)
    run.calibrate()
    run.remark("catch-up: pgqueuer 1.6 has no catch-up, so it is not measured there")
    return section


def _catch_up(section: Section, contender: OurFlowContender, arrivals: Arrivals, load: Load, jobs: int) -> None:
    fresh, ticks = [arrivals.url_of("/fresh")], arrivals.url_of("/ticks")
    contender.register([*fresh, ticks])
    arrivals.clear()
    job = {"trigger": "CRON", "cron": "* * * * *", "timezone": "UTC"}
    contender.ours.stack.api.post("/jobs/batch", {"jobs": [contender.ours.job(ticks, **job) for _ in range(jobs)]})
    contender.enqueue([Stream(fresh[0], _WARM)])
    with contender.at_work() as workers:
        arrivals.wait_for(_WARM, check=lambda: check(workers))
        _late(section, f"{contender.name}, alone", deliver(contender, arrivals, fresh, load))
        usual = len(arrivals.times_of("/ticks"))
        contender.execute(_AN_HOUR_LATE)
        # The scheduler was not down: it finds jobs behind its watermark within half a minute.
        while len(arrivals.times_of("/ticks")) < usual + _WARM:
            check(workers)
            time.sleep(_POLL_SECONDS)
        before, began = len(arrivals.times_of("/ticks")), time.monotonic()
        _late(section, contender.name, deliver(contender, arrivals, fresh, load))
        now = len(arrivals.times_of("/ticks"))
        section.add(CAUGHT_UP, contender.name, (now - before) / (time.monotonic() - began))
        section.add(CAUGHT_UP_SHARE, contender.name, (now - usual) / (_TICKS_AN_HOUR * jobs) * 100)
    contender.clear()
