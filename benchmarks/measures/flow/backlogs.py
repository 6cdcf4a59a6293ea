"""Backlogs: how fast a very long one drains, and how late fresh work is beside it and beside ticks of an outage."""

import time
from collections.abc import Sequence
from contextlib import closing

import psycopg2

from benchmarks.arrivals import Arrivals
from benchmarks.contenders.contender import check
from benchmarks.contenders.crowd import OurCrowd, Stream
from benchmarks.measures.flow import pace
from benchmarks.measures.flow.isolation import Load, Seen, deliver
from benchmarks.report.results import Figure, Section, percentile
from benchmarks.report.run import Run

_ENDPOINTS = 20
_SMALL_A_SECOND = 5000
_FRESH_A_SECOND = 50
_JOBS = 1000
_WARM = 100
_LOOK_SECONDS = 0.2
# What a scheduler finds that was down for an hour.
_AN_HOUR_LATE = """
UPDATE jobs SET cron_next_run_at = date_trunc('minute', now()) - INTERVAL '1 hour',
       cron_starts_at = date_trunc('minute', now()) - INTERVAL '1 hour'
 WHERE trigger_type = 'CRON' AND status = 'ACTIVE'
"""

DRAIN = Figure("drain", "1/s")
RATIO = Figure("drain, by that of a short backlog", "", 2)
LATE = [Figure(f"fresh deliveries late by, p{share}", "ms", 1) for share in (50, 99)]
CAUGHT_UP = Figure("ticks delivered meanwhile", "1/s")


def measure(run: Run, crowd: OurCrowd, arrivals: Arrivals, *, seconds: float, due: int, rounds: int) -> Section:
    """Drain a short backlog, then a very long one, then the same beside fresh deliveries of the highest priority."""
    section = run.section(f"Backlog of {due:,}, {_ENDPOINTS} endpoints")
    urls = [arrivals.url_of(f"/quick/{number}") for number in range(_ENDPOINTS)]
    fresh = [arrivals.url_of("/fresh")]
    crowd.register([*urls, *fresh])
    long, beside = f"of {due:,}", f"of {due:,}, beside {_FRESH_A_SECOND}/s of priority 255"
    for _ in range(rounds):
        run.calibrate()
        short = _drain(crowd, arrivals, urls, round(_SMALL_A_SECOND * seconds), seconds)
        _add(section, "short", short.rate, short.rate)
        crowd.clear()
        run.calibrate()
        _add(section, long, _drain(crowd, arrivals, urls, due, seconds).rate, short.rate)
        run.calibrate()
        arrivals.clear()
        with crowd.at_work() as workers:
            arrivals.wait_for(_WARM, check=lambda: check(workers))
            began = time.monotonic()
            seen = deliver(crowd, arrivals, fresh, Load(_FRESH_A_SECOND, seconds), priority=255)
            rate = (arrivals.counts()["arrived"] - _WARM) / (time.monotonic() - began)
        _add(section, beside, rate, short.rate)
        _late(section, beside, seen)
        crowd.clear()
        run.calibrate()
    return section


def _drain(crowd: OurCrowd, arrivals: Arrivals, urls: Sequence[str], count: int, seconds: float) -> pace.Pace:
    arrivals.clear()
    crowd.fill(urls, count // len(urls))
    crowd.ours.settle()
    return pace.take(crowd, arrivals, seconds)


def _add(section: Section, who: str, rate: float, short: float) -> None:
    section.add(DRAIN, who, rate)
    section.add(RATIO, who, rate / short)


def _late(section: Section, who: str, seen: Seen) -> None:
    for figure, share in zip(LATE, (0.5, 0.99), strict=True):
        section.add(figure, who, percentile(seen.late_ms, share))


def catch_up(run: Run, crowds: Sequence[OurCrowd], arrivals: Arrivals, load: Load, rounds: int) -> Section:
    """Deliver fresh work alone, and beside the ticks of jobs whose scheduler was down for an hour."""
    section = run.section(f"Catching up on an hour of {_JOBS:,} one-minute jobs, beside {load.rate:,.0f}/s")
    for _ in range(rounds):
        for crowd in crowds:
            run.calibrate()
            _catch_up(section, crowd, arrivals, load)
            print(f"  catch-up: {crowd.name} taken", flush=True)
    run.calibrate()
    return section


def _catch_up(section: Section, crowd: OurCrowd, arrivals: Arrivals, load: Load) -> None:
    fresh, ticks = [arrivals.url_of("/fresh")], arrivals.url_of("/ticks")
    crowd.register([*fresh, ticks])
    arrivals.clear()
    job = {"trigger": "CRON", "cron": "* * * * *", "timezone": "UTC"}
    crowd.ours.stack.api.post("/jobs/batch", {"jobs": [crowd.ours.job(ticks, **job) for _ in range(_JOBS)]})
    crowd.enqueue([Stream(fresh[0], _WARM)])
    with crowd.at_work() as workers:
        arrivals.wait_for(_WARM, check=lambda: check(workers))
        _late(section, f"{crowd.name}, alone", deliver(crowd, arrivals, fresh, load))
        before = len(arrivals.times_of("/ticks"))
        with (
            closing(psycopg2.connect(crowd.ours.stack.database_url)) as connection,
            connection,
            connection.cursor() as c,
        ):
            c.execute(_AN_HOUR_LATE)
        # The scheduler was not down: what is behind its mark it finds within half a minute.
        while len(arrivals.times_of("/ticks")) < before + _WARM:
            check(workers)
            time.sleep(_LOOK_SECONDS)
        before, began = len(arrivals.times_of("/ticks")), time.monotonic()
        _late(section, crowd.name, deliver(crowd, arrivals, fresh, load))
        came = len(arrivals.times_of("/ticks")) - before
        section.add(CAUGHT_UP, crowd.name, came / (time.monotonic() - began))
    crowd.clear()


def _run(crowd: OurCrowd, statement: str) -> None:
    with closing(psycopg2.connect(crowd.ours.stack.database_url)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        connection.commit()
